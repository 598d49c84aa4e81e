#pragma once
#include <stdexcept>
#include <string>

#include "kernels/cuda/runtime.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// Throws std::runtime_error, with file and line of the call, if the call failed. Clears the error,
// which the next launch would otherwise report as its own.
inline void cuda_check(cudaError_t error, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error) + " (" + file + ":" +
                           std::to_string(line) + ")");
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
