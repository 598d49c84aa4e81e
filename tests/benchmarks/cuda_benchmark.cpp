// The kernels of the CUDA backend, every step of their ladders, and whole models, at the shapes of
// Llama 3.2 1B and 3B, held against a sweep that only reads and against cuBLAS in the same run.
//
//   cuda_benchmark [--samples=N] [--by-turns] [Google Benchmark's options]
//
// Without a GPU one line says so, and the exit code is 0: nothing was measured.
#include <cstdio>

#include <fmt/format.h>

#include "kernels/cuda/argmax/argmax.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda_backend.h"
#include "kernels/cuda_support.h"
#include "tests/benchmarks/cuda_cases.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

// Times the device's work by events, each time after two sweeps in the same stream: a copy, and a
// pass that only reads, whose bandwidth is what the work is held against. It leaves the L2 full of
// something else, none of it to be written back. While they run, the host puts the work into the
// stream, so its launches are not part of the time.
class Gpu final : public Machine {
 public:
  explicit Gpu(Backend& backend)
      : backend_(backend),
        from_(random_floats(backend, kSweepBytes / sizeof(float))),
        to_(backend, from_.size()),
        ids_(backend, from_.size() / kSweepWidth) {
    for (cudaEvent_t& event : events_) cuda_check(cudaEventCreate(&event));
    for (int i = 0; i < 3; ++i) seconds_of([] {});  // clocks up
  }
  ~Gpu() override {
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  double seconds_of(const std::function<void()>& work) override {
    cuda_check(cudaEventRecord(events_[0]));
    backend_.copy(from_.data(), to_.data(), from_.size() * sizeof(float));
    cuda_check(cudaEventRecord(events_[1]));
    argmax_block(matrix(from_, static_cast<int>(ids_.size()), kSweepWidth), ids_.data(), nullptr);
    cuda_check(cudaEventRecord(events_[2]));
    work();
    cuda_check(cudaEventRecord(events_[3]));
    cuda_check(cudaEventSynchronize(events_[3]));
    return seconds_after(2);
  }
  Look look() override {
    const auto swept = static_cast<double>(from_.size() * sizeof(float));
    return {.bandwidth = swept / seconds_after(1), .copy_bandwidth = 2 * swept / seconds_after(0)};
  }
  double most_seconds() const override { return 0.5; }

 private:
  static constexpr int kSweepWidth = 1 << 15;

  double seconds_after(std::size_t event) const {
    float milliseconds = 0;
    cuda_check(cudaEventElapsedTime(&milliseconds, events_[event], events_[event + 1]));
    return std::max(double{milliseconds}, 1e-6) * 1e-3;
  }

  Backend& backend_;
  DeviceArray<float> from_, to_;
  DeviceArray<std::int32_t> ids_;
  std::array<cudaEvent_t, 4> events_{};
};

#ifdef SPECDEC_EMULATED
std::string problem() { return ""; }
std::unique_ptr<Backend> make_backend() { return make_emulated_backend(); }
KernelProgram::About about_device() { return {}; }
#else
std::string problem() { return cuda_support().problem; }
std::unique_ptr<Backend> make_backend() { return make_cuda_backend(); }

std::string version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

KernelProgram::About about_device() {
  const CudaDevice gpu = cuda_support().devices.at(0);
  int runtime = 0, driver = 0;
  cuda_check(cudaRuntimeGetVersion(&runtime));
  cuda_check(cudaDriverGetVersion(&driver));
  return {{"gpu", gpu.name},
          {"compute_capability",
           fmt::format("{}.{}", gpu.compute_capability / 10, gpu.compute_capability % 10)},
          {"multiprocessors", std::to_string(gpu.multiprocessors)},
          {"memory_bytes", std::to_string(gpu.memory_bytes)},
          {"cuda", version(runtime)},
          {"driver_cuda", version(driver)}};
}
#endif

int run(int argc, char** argv) {
  KernelProgram program(argc, argv, 15);
  if (!problem().empty()) return program.not_measured(problem());
  const auto backend = make_backend();
  add_forward_benchmarks(program);
  add_product_benchmarks(program, *backend);
  add_attention_benchmarks(program, *backend);
  add_sampling_benchmarks(program, *backend);
  add_row_benchmarks(program, *backend);
  Gpu gpu(*backend);
  KernelProgram::About about = about_device();
  about.emplace_back("backend", backend->name());
  return program.run(gpu, about);
}

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD

int main(int argc, char** argv) {
  try {
    return specdec::cuda::run(argc, argv);
  } catch (const std::exception& error) {  // no memory, a kernel that fails
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}
