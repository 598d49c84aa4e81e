#pragma once
#include <cstdint>

#include "kernels/cuda/cuda_matrix.h"
#include "kernels/ops.h"

// The operations of the same names in Backend (kernels/ops.h). The caller has checked the shapes.
// All pointers are device memory; a call returns when the kernel is in the stream.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

void embed(const CudaMatrix& table, const std::int32_t* ids, DeviceRows out, cudaStream_t stream);
void gather_rows(ConstDeviceRows x, const std::int32_t* rows, DeviceRows out, cudaStream_t stream);
void add(DeviceRows x, ConstDeviceRows y, cudaStream_t stream);
void silu_mul(ConstDeviceRows gate, ConstDeviceRows up, DeviceRows out, cudaStream_t stream);
void fill(DeviceRows x, float value, cudaStream_t stream);

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
