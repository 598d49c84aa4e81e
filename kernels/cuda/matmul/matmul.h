#pragma once
#include "kernels/cuda/cuda_matrix.h"
#include "kernels/device_memory.h"

// y = x W^T, step by step faster. x: [T, K], weight: [N, K], y: [T, N]; device memory. Each has one
// order of summation along K for every element of y, which depends on K and the type of the weights
// alone: a row's bits are the same whatever T is and wherever the row stands.
//
// Decoding is bound by the bytes of the weights, so what counts is how often they are read, and how
// many bytes are on their way at a time.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// One thread an element of y. Weights read T times, a warp's lanes a row of W apart.
void matmul_naive(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream);

// One warp an element of y. Weights read T times, a warp's lanes side by side.
void matmul_warp(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream);

// The same with loads of 16 bytes: 4, 8 or 16 weights a lane.
void matmul_vector(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream);

// What becomes of the products p = x W^T, in the kernel that computes them.
enum class Then {
  kStore,   // y = p
  kAdd,     // y += p
  kSiluMul  // y = silu(left half of p) * right half of p; y: [T, N / 2]
};

// One block for 4 products of up to 16 rows of x. Weights read T / 16 times, rounded up.
void matmul_rows_then(Then then, ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y,
                      cudaStream_t stream);
void matmul_rows(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream);

// By tensor cores: weights read T / 8 times, rounded up. x is split into three bfloat16 numbers
// that add up to it, so the products are those of float32; their sum is the tensor cores' own,
// which cuts off low bits. An infinity in x comes out as NaN. The bits of a row do not depend on
// the others, as far as the hardware's sums of a column do not: NOT CHECKED on a GPU. REQUIRES:
// weights of type kBF16.
void matmul_mma(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream);

// By tensor cores, in a pipeline of asynchronous copies: weights read once for each 8 to 64 rows.
// The tensor cores sum up 64 products at a time, and float32 the rest. The tile changes no bits.
// REQUIRES: can_pipeline(weight), weights that are exact as bf16: kBF16 and kInt8.
enum class PipelineTile { kRows8, kRows16, kRows32, kRows64 };
bool can_pipeline(const CudaMatrix& weight);
void matmul_pipeline(PipelineTile tile, Then then, ConstDeviceRows x, const CudaMatrix& weight,
                     DeviceRows y, cudaStream_t stream);
void matmul_pipeline_then(Then then, ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y,
                          cudaStream_t stream);

// The ones that the engine calls, for any number of rows: the pipeline where the weights are exact
// as bf16, else matmul_rows. (Three parts of each weight, too, would take nine products on tensor
// cores, and more instructions to split them than the multiply-adds that they save with few rows.)
void matmul_then(Then then, ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y,
                 cudaStream_t stream);
void matmul(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream);

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
