#include "common/run/device.h"

#include "common/base/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda_backend.h"
#include "kernels/cuda_support.h"

namespace specdec {

std::unique_ptr<Backend> make_backend(const RunOptions& options) {
  const Gemm gemm = options.gemm == "cublas" ? Gemm::kCublas : Gemm::kInvariant;
  if (options.device == "emulated") return make_emulated_backend(gemm);
  const std::string problem = cuda_support().problem;
  if (options.device == "cuda" && !problem.empty()) {
    fail("--device cuda: {}; use --device cpu", problem);
  }
  if (options.device != "cpu" && problem.empty()) return make_cuda_backend(gemm);
  if (gemm == Gemm::kCublas) fail("--gemm cublas needs --device cuda");
  return make_cpu_backend(options.threads);
}

}  // namespace specdec
