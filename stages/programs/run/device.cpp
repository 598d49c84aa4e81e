#include "stages/programs/run/device.h"

#include <fmt/format.h>

#include "common/base/error.h"
#include "common/base/streams.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda_backend.h"
#include "kernels/cuda_support.h"

namespace specdec {

std::unique_ptr<Backend> make_backend(const RunOptions& options) {
  if (options.device == DeviceChoice::kEmulated) return make_emulated_backend(options.gemm);
  if (options.device != DeviceChoice::kCpu) {
    const CudaSupport cuda = cuda_support();
    if (cuda.problem.empty()) return make_cuda_backend(options.gemm);
    if (options.device == DeviceChoice::kCuda) {
      fail("--device cuda: {}; use --device cpu", cuda.problem);
    }
    if (!cuda.devices.empty()) {  // a user may wonder why the GPU is idle
      say("{}: this runs on the CPU, not on the GPU: {}\n", stage_name(options.stage),
          cuda.problem);
    }
  }
  if (options.gemm == Gemm::kCublas) fail("--gemm cublas needs --device cuda");
  auto backend = make_cpu_backend(options.threads);
  if (const std::string warning = backend->warning(); !warning.empty()) {
    say("{}: warning: {}\n", stage_name(options.stage), warning);
  }
  return backend;
}

}  // namespace specdec
