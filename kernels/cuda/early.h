#pragma once
#include <cstdlib>
#include <string_view>

#include "kernels/cuda/runtime.h"

// Kernels that begin before the previous kernel has ended ("programmatic dependent launch", of
// compute capability 9.0). Their blocks already occupy multiprocessors, and load data that no
// kernel writes, while the last blocks of the previous kernel still run. Device code.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// Whether the GPU runs code for compute capability 9.0 or higher. A newer GPU also runs older code,
// which lacks what 9.0 brought. kernel: any.
inline bool has_code_for_9_0([[maybe_unused]] const void* kernel) {
#ifdef SPECDEC_EMULATED
  return true;
#else
  static const bool possible = [&] {
    cudaFuncAttributes attributes{};
    int device = 0, major = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ==
               cudaSuccess &&
           cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess && major >= 9 &&
           attributes.ptxVersion >= 90;
  }();
  return possible;
#endif
}

// Whether a kernel with this option is launched early; with SPECDEC_CUDA_EARLY=0, none is. Older
// code does not wait.
inline bool begins_early(const void* kernel) {
  const char* value = std::getenv("SPECDEC_CUDA_EARLY");
  const bool wanted = value == nullptr || std::string_view(value) != "0";
  return wanted && has_code_for_9_0(kernel);
}

// [snippet await-kernels-before]
// Each thread of a kernel that is launched early calls this first. Before the call, it may only
// read data that no kernel writes, such as weights. When all blocks have called it or have ended,
// the next kernel may begin, even before this one's wait is over. Returns when all earlier kernels
// have ended and their results are visible: a kernel ends only after the previous one, for which it
// waits, so waiting for one is waiting for all.
__device__ inline void await_kernels_before() {
#if defined(SPECDEC_EMULATED) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900)
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
#endif
}
// [end snippet await-kernels-before]

// Prefetches the 128 bytes around an address into L2. Call it before await_kernels_before().
__device__ inline void prefetch(const void* address) {
#ifdef SPECDEC_EMULATED
  static_cast<void>(*static_cast<const volatile char*>(address));
#else
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#endif
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
