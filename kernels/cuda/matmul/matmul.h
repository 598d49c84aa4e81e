#pragma once
#include "kernels/cuda/cuda_matrix.h"
#include "kernels/cuda/device_limits.h"
#include "kernels/cuda/rope.h"
#include "kernels/device_memory.h"

// y = x W^T in steps, each faster than the one before. x: [T, K], weight: [N, K], y: [T, N]; device
// memory. In each step, the order of summation along K depends only on K and the type of the
// weights. So a row's bits do not depend on T or on the row's index.
//
// Decoding is bound by the bytes of the weights, so what counts is how often they are read, and how
// many bytes are in flight.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// One thread per element of y. Reads weights T times; a warp's lanes are a row of W apart.
void matmul_naive(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream);

// One warp per element of y. Reads weights T times; a warp's lanes are side by side.
void matmul_warp(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream);

// The same with loads of 16 bytes: 4 to 32 weights per lane.
void matmul_vector(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream);

// What the kernel does with the products p = x W^T (its epilogue).
enum class Then {
  kStore,     // y = p
  kAdd,       // y += p
  kSiluMul,   // y = silu(left half of p) * right half of p; y: [T, N / 2]
  kRopeStore  // p is q, k and v: y = q, rotated; the cache gets k, rotated, and v. y: [T, N], of
              // which only the columns of q are written
};

// One block for 4 products of up to 16 rows of x. Reads weights T / 16 times, rounded up.
void matmul_rows_then(Then then, ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y,
                      cudaStream_t stream);
void matmul_rows(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream);

// On tensor cores: reads weights T / 8 times, rounded up. x is split into three bfloat16 numbers
// that add up to it, so products are those of float32. The tensor cores add them, which truncates
// low bits. An infinity in x becomes NaN. The bits of a row do not depend on the other rows,
// provided that the hardware adds each column independently: NOT CHECKED on a GPU. REQUIRES:
// weights of type kBF16.
void matmul_mma(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream);

// On tensor cores, in a pipeline of asynchronous copies: reads weights once per 8 to 64 rows. The
// tensor cores add 64 products at a time, or those of a group, and float32 additions do the rest.
// The tile changes no bits. REQUIRES: can_pipeline(weight), so weights that are exact in bf16, or
// whose q are: all but kF32 and kF16; for a wide tile, 163 KiB of shared memory per block (compute
// capability 8.0, 9.0 and 10.0).
enum class PipelineTile {
  kRows8,
  kRows16,
  kRows16Outputs64,
  kRows32,
  kRows64,
  kRows8Wide,
  kRows16Wide
};
bool can_pipeline(const CudaMatrix& weight);
// The tile that matmul_pipeline_then() uses for y: [rows, outputs] and x: [rows, inputs].
PipelineTile pipeline_tile(int rows, int outputs, int inputs, const DeviceLimits& device);
// to: for kRopeStore.
void matmul_pipeline(PipelineTile tile, Then then, ConstDeviceRows x, const CudaMatrix& weight,
                     DeviceRows y, cudaStream_t stream, const RopeStore& to = {});
void matmul_pipeline_then(Then then, ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y,
                          cudaStream_t stream, const RopeStore& to = {});

// The pipeline with copies of boxes by the GPU's copy engine, and with the same bits. A lesson: the
// engine does not call it. REQUIRES: can_run_matmul_tma(), weights of type kBF16, rows of x at
// multiples of 16 bytes.
bool can_run_matmul_tma();
void matmul_tma(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream);

// One sum for `pieces` blocks, 1 to 8, with the bits of the pipeline. A lesson: the engine does not
// call it. REQUIRES: can_run_matmul_split(), weights of type kBF16, up to 6,080 inputs per piece,
// whose chains' sums fit into 48 KiB of shared memory.
bool can_run_matmul_split();
void matmul_split(int pieces, ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y,
                  cudaStream_t stream);
// Each block adds its piece to y. With y: [T, N], the bits depend on which block comes first. With
// y: [pieces T, N], each has rows of its own, and their sum has other bits than without pieces.
void matmul_split_parts(int pieces, ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y,
                        cudaStream_t stream);
// y: [T, N] = the sum of parts: [pieces T, N], piece by piece.
void add_parts(ConstDeviceRows parts, DeviceRows y, cudaStream_t stream);

// The pipeline for many rows, with products of four warps at a time. A lesson: the engine does not
// call it. The bits are those of the pipeline if the tensor cores add equally in both instructions:
// NOT CHECKED on a GPU. REQUIRES: can_run_matmul_warpgroup(), otherwise as matmul_tma().
bool can_run_matmul_warpgroup();
void matmul_warpgroup(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y,
                      cudaStream_t stream);

// What the engine calls, for any number of rows: the pipeline if it can multiply the weights,
// otherwise matmul_rows. (Splitting other weights into three parts, too, would take nine products
// on tensor cores, and with few rows more instructions to split them than it saves multiply-adds.)
void matmul_then(Then then, ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y,
                 cudaStream_t stream);
void matmul(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream);

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
