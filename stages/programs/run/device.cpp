#include "stages/programs/run/device.h"

#include <fmt/format.h>

#include "common/base/error.h"
#include "common/base/streams.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda_backend.h"
#include "kernels/cuda_support.h"

namespace specdec {

namespace {

void refuse_q4(WeightFormat format, std::string_view whose) {
  if (format != WeightFormat::kQ4) return;
  fail("--{}-weights {} runs on CPUs only: use --device cpu, or --{}-weights {}", whose,
       name_of(format), whose, name_of(WeightFormat::kInt8));
}

std::unique_ptr<Backend> make_device(const RunOptions& options, bool is_emulated) {
  refuse_q4(options.target_weights, "target");
  refuse_q4(options.draft_weights, "draft");
  return is_emulated ? make_emulated_backend(options.gemm) : make_cuda_backend(options.gemm);
}

}  // namespace

std::unique_ptr<Backend> make_backend(const RunOptions& options) {
  if (options.device == DeviceChoice::kEmulated) return make_device(options, true);
  if (options.device != DeviceChoice::kCpu) {
    const CudaSupport cuda = cuda_support();
    if (cuda.problem.empty()) return make_device(options, false);
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
