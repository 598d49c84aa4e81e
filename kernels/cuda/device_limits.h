#pragma once
#include <cstddef>

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/runtime.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// What the current device offers. No choice by it changes bits.
struct DeviceLimits {
  int multiprocessors;
  std::size_t shared_bytes;  // of a block that opts in
};

// Asks once. Throws std::runtime_error, as cuda_check().
inline const DeviceLimits& device_limits() {
  static const DeviceLimits limits = [] {
    int device = 0;
    cudaDeviceProp properties{};
    cuda_check(cudaGetDevice(&device));
    cuda_check(cudaGetDeviceProperties(&properties, device));
    return DeviceLimits{properties.multiProcessorCount, properties.sharedMemPerBlockOptin};
  }();
  return limits;
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
