#include "common/run/device.h"

#include "common/base/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda_support.h"

namespace specdec {

std::unique_ptr<Backend> make_backend(const RunOptions& options) {
  if (options.device == "cuda") {
    const CudaSupport cuda = cuda_support();
    fail("--device cuda: {}; use --device cpu",
         cuda.problem.empty() ? "the engine has no CUDA kernels yet" : cuda.problem);
  }
  if (options.gemm == "cublas") fail("--gemm cublas needs --device cuda");
  return make_cpu_backend(options.threads);
}

}  // namespace specdec
