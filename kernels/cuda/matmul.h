#pragma once
#include "kernels/cuda/cuda_matrix.h"
#include "kernels/device_memory.h"

// y = x W^T, step by step faster. x: [T, K], weight: [N, K], y: [T, N]; device memory. Each has one
// order of summation along K for every element, whatever T is.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// One thread an element of y.
void matmul_naive(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream);

// The one that the engine calls.
void matmul(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream);

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
