#pragma once
#include <cstdlib>
#include <string_view>

#include "kernels/cuda/runtime.h"

// Kernels that begin before the one in front of them has ended ("programmatic dependent launch", of
// compute capability 9.0): their blocks are on the multiprocessors, and ask for what no kernel
// writes, while the last blocks of the kernel before still work. Device code.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// Whether a kernel that asks for it is launched so. SPECDEC_CUDA_EARLY=0: none is. It takes code
// for compute capability 9.0, because older code, which a newer GPU runs too, does not wait.
inline bool begins_early([[maybe_unused]] const void* kernel) {
  const auto wanted = [] {
    const char* value = std::getenv("SPECDEC_CUDA_EARLY");
    return value == nullptr || std::string_view(value) != "0";
  };
#ifdef SPECDEC_EMULATED
  return wanted();
#else
  static const bool begins = [&] {
    cudaFuncAttributes attributes{};
    int device = 0, major = 0;
    return wanted() && cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ==
               cudaSuccess &&
           cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess && major >= 9 &&
           attributes.ptxVersion >= 90;
  }();
  return begins;
#endif
}

// [snippet await-kernels-before]
// What each thread of a kernel that is launched early does before all else, but for reading what no
// kernel writes: weights. Returns when the kernels before have ended and their results can be read;
// then the next one may begin. Every kernel waits, so whoever waits for one has waited for all.
__device__ inline void await_kernels_before() {
#if defined(SPECDEC_EMULATED) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900)
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}
// [end snippet await-kernels-before]

// Asks for the 128 bytes around an address, into L2. To be called before await_kernels_before().
__device__ inline void prefetch(const void* address) {
#ifdef SPECDEC_EMULATED
  static_cast<void>(*static_cast<const volatile char*>(address));
#else
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#endif
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
