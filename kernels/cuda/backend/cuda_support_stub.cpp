#include <stdexcept>

#include "kernels/cuda_backend.h"
#include "kernels/cuda_support.h"

namespace specdec {

CudaSupport cuda_support() {
  CudaSupport support;
  support.problem = "built without CUDA: " SPECDEC_WHY_NO_CUDA;
  return support;
}

std::unique_ptr<Backend> make_cuda_backend(Gemm) {
  throw std::runtime_error(cuda_support().problem);
}

}  // namespace specdec
