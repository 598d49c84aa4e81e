#include <cuda_runtime.h>

#include "kernels/cuda_support.h"

namespace specdec {

CudaSupport cuda_support() {
  CudaSupport support;
  support.built = true;
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    support.problem = cudaGetErrorString(error);
    return support;
  }
  for (int i = 0; i < count; i++) {
    cudaDeviceProp properties{};
    if (const cudaError_t error = cudaGetDeviceProperties(&properties, i); error != cudaSuccess) {
      support.problem = cudaGetErrorString(error);
      continue;
    }
    support.devices.push_back({properties.name, properties.major * 10 + properties.minor,
                               properties.multiProcessorCount, properties.totalGlobalMem});
  }
  if (support.devices.empty() && support.problem.empty()) support.problem = "no CUDA device";
  return support;
}

}  // namespace specdec
