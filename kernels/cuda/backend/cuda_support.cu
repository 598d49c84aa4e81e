#include <cuda_runtime.h>

#include "kernels/cuda_support.h"

namespace specdec {
namespace {

__global__ void probe_kernel() {}

// "80, 90" from the compiler's list of 800, 900.
std::string architectures() {
  std::string list;
  for (const int architecture : {__CUDA_ARCH_LIST__}) {
    list += (list.empty() ? "" : ", ") + std::to_string(architecture / 10);
  }
  return list;
}

}  // namespace

CudaSupport cuda_support() {
  CudaFacts facts;
  facts.architectures = architectures();
  cudaDriverGetVersion(&facts.driver_version);
  cudaRuntimeGetVersion(&facts.runtime_version);
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    facts.error = cudaGetErrorString(error);
  }
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
    facts.devices.push_back({properties.name, properties.major * 10 + properties.minor,
                             properties.multiProcessorCount, properties.totalGlobalMem});
  }
  if (!facts.devices.empty()) {
    cudaFuncAttributes attributes{};
    facts.has_code = cudaFuncGetAttributes(&attributes, probe_kernel) == cudaSuccess;
    cudaGetLastError();  // clears the error, which is known
  }
  return {.built = true, .devices = facts.devices, .problem = cuda_problem(facts)};
}

}  // namespace specdec
