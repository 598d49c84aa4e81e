#pragma once
#include "kernels/cuda/runtime.h"
#include "kernels/device_memory.h"

// out = x / sqrt(mean(x^2) + eps) * weight (Zhang and Sennrich 2019, equation 4), in steps, each
// faster than the one before. x, out: [T, E]; weight: [E]; all device memory. In each step, the
// order of summation depends only on E.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// One thread per row.
void rms_norm_naive(ConstDeviceRows x, const float* weight, float eps, DeviceRows out,
                    cudaStream_t stream);

// One block per row: neighbouring threads read neighbouring elements.
void rms_norm_block(ConstDeviceRows x, const float* weight, float eps, DeviceRows out,
                    cudaStream_t stream);

// The same with loads of 16 bytes; gives the same bits at any alignment.
void rms_norm_vector(ConstDeviceRows x, const float* weight, float eps, DeviceRows out,
                     cudaStream_t stream);

// x += y, and the norm of that, in one kernel. y: [T, E]. The bits of add and rms_norm_vector.
void add_rms_norm_vector(DeviceRows x, ConstDeviceRows y, const float* weight, float eps,
                         DeviceRows out, cudaStream_t stream);

// What the engine calls.
void rms_norm(ConstDeviceRows x, const float* weight, float eps, DeviceRows out,
              cudaStream_t stream);
void add_rms_norm(DeviceRows x, ConstDeviceRows y, const float* weight, float eps, DeviceRows out,
                  cudaStream_t stream);

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
