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

// By tensor cores; off: the engine calls it when a committed run on a GPU has shown it right and
// faster (NOT MEASURED). Its products are those of float32: x is split into three bfloat16 numbers
// that add up to it; their sum is the tensor cores' own, which drops low bits. An infinity in x
// comes out as NaN. The bits of a row do not depend on the others, as far as the hardware's sums of
// a column do not: to be shown on a GPU.
// REQUIRES: weights of type kBF16; a GPU of compute capability 8.0, or the emulation.
void matmul_mma(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream);

// The one that the engine calls.
void matmul(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream);

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
