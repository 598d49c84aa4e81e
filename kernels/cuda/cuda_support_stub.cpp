#include "kernels/cuda_support.h"

namespace specdec {

CudaSupport cuda_support() {
  CudaSupport support;
  support.problem = "built without CUDA: nvcc was not found when this program was configured";
  return support;
}

}  // namespace specdec
