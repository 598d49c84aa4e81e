#include "kernels/cuda_support.h"

namespace specdec {
namespace {

std::string version(int number) {  // 13000 is 13.0
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

}  // namespace

std::string cuda_problem(const CudaFacts& facts) {
  if (facts.driver_version == 0) return "no NVIDIA driver is installed";
  if (facts.driver_version / 1000 < facts.runtime_version / 1000) {
    return "the NVIDIA driver is too old: it serves CUDA " + version(facts.driver_version) +
           ", this program was built with CUDA " + version(facts.runtime_version) +
           "; update the driver, or build with an older CUDA Toolkit";
  }
  if (!facts.error.empty()) return "the driver says: " + facts.error;
  if (facts.devices.empty()) return "there is no CUDA device";
  if (!facts.has_code) {
    const CudaDevice& gpu = facts.devices[0];
    const std::string needed = std::to_string(gpu.compute_capability);
    return "this program has code for compute capability " + facts.architectures + ", and " +
           gpu.name + " has " + needed + "; configure with -DCMAKE_CUDA_ARCHITECTURES=" + needed;
  }
  return "";
}

}  // namespace specdec
