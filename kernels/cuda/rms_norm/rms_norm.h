#pragma once
#include "kernels/cuda/runtime.h"
#include "kernels/device_memory.h"

// out = x / sqrt(mean(x^2) + eps) * weight (Zhang and Sennrich 2019, equation 4), step by step
// faster. x, out: [T, E]; weight: [E]; all device memory. Each has one order of summation, which
// depends on E alone.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// One thread a row.
void rms_norm_naive(ConstDeviceRows x, const float* weight, float eps, DeviceRows out,
                    cudaStream_t stream);

// One block a row: neighbouring threads read neighbouring elements.
void rms_norm_block(ConstDeviceRows x, const float* weight, float eps, DeviceRows out,
                    cudaStream_t stream);

// The same with loads of 16 bytes; at any alignment the same bits.
void rms_norm_vector(ConstDeviceRows x, const float* weight, float eps, DeviceRows out,
                     cudaStream_t stream);

// x += y, and the norm of that, in one kernel. y: [T, E]. The bits of add and rms_norm_vector.
void add_rms_norm_vector(DeviceRows x, ConstDeviceRows y, const float* weight, float eps,
                         DeviceRows out, cudaStream_t stream);

// The ones that the engine calls.
void rms_norm(ConstDeviceRows x, const float* weight, float eps, DeviceRows out,
              cudaStream_t stream);
void add_rms_norm(DeviceRows x, ConstDeviceRows y, const float* weight, float eps, DeviceRows out,
                  cudaStream_t stream);

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
