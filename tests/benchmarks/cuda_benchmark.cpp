// The kernels of the CUDA backend, every step of their ladders, and whole models, at the shapes of
// Llama 3.2 1B and 3B, held against a sweep that only reads and against cuBLAS in the same run.
//
//   cuda_benchmark [--samples=N] [Google Benchmark's options]
//
// Without a GPU one line says so, on stdout and as JSON in the file of --benchmark_out, and the
// exit code is 0: nothing was measured.
#include <cstdio>
#include <fstream>

#include <fmt/format.h>

#include "common/base/json_value.h"
#include "kernels/cuda_backend.h"
#include "kernels/cuda_support.h"
#include "tests/benchmarks/cuda_samples.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

std::string out_file(int argc, char** argv) {
  constexpr std::string_view kOption = "--benchmark_out=";
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]).starts_with(kOption)) return argv[i] + kOption.size();
  }
  return "";
}

int say_not_measured(const std::string& problem, const std::string& file) {
  fmt::print("NOT MEASURED: {}\n", problem);
  if (file.empty()) return 0;
  std::ofstream(file) << Json{{"not_measured", problem}} << "\n";
  return 0;
}

#ifdef SPECDEC_EMULATED
std::string problem() { return ""; }
std::unique_ptr<Backend> make_backend() { return make_emulated_backend(); }
void describe_device() {}
#else
std::string problem() { return cuda_support().problem; }
std::unique_ptr<Backend> make_backend() { return make_cuda_backend(); }

std::string version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

void describe_device() {
  const CudaDevice gpu = cuda_support().devices.at(0);
  int runtime = 0, driver = 0;
  cuda_check(cudaRuntimeGetVersion(&runtime));
  cuda_check(cudaDriverGetVersion(&driver));
  benchmark::AddCustomContext("gpu", gpu.name);
  benchmark::AddCustomContext(
      "compute_capability",
      fmt::format("{}.{}", gpu.compute_capability / 10, gpu.compute_capability % 10));
  benchmark::AddCustomContext("multiprocessors", std::to_string(gpu.multiprocessors));
  benchmark::AddCustomContext("memory_bytes", std::to_string(gpu.memory_bytes));
  benchmark::AddCustomContext("cuda", version(runtime));
  benchmark::AddCustomContext("driver_cuda", version(driver));
}
#endif

int run(int argc, char** argv) {
  const std::string file = out_file(argc, argv);
  const int samples = take_number(argc, argv, "--samples", 15);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  if (!problem().empty()) return say_not_measured(problem(), file);
  const auto backend = make_backend();
  DeviceTimer timer(*backend);
  CudaBench bench{*backend, timer, std::max(samples, 1)};
  benchmark::AddCustomContext("backend", backend->name());
  describe_device();
  add_forward_benchmarks(bench);
  add_product_benchmarks(bench);
  add_attention_benchmarks(bench);
  add_sampling_benchmarks(bench);
  add_row_benchmarks(bench);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::ClearRegisteredBenchmarks();  // and what they keep, before the backend goes
  return 0;
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
