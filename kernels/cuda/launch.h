#pragma once
#include <cstddef>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/early.h"
#include "kernels/cuda/runtime.h"

// How kernels are launched in the two builds of their source. They differ elsewhere only in what
// C++ cannot express: search for SPECDEC_EMULATED.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// A kernel's mangled name (c++filt makes it readable), if CUDA provides it.
inline std::string kernel_name([[maybe_unused]] const void* kernel) {
#if !defined(SPECDEC_EMULATED) && CUDART_VERSION >= 12030
  const char* name = nullptr;
  if (cudaFuncGetName(&name, kernel) == cudaSuccess && name != nullptr) return name;
#endif
  return "a kernel";
}

// SPECDEC_CUDA_SYNC=1: wait after each launch, so that an error names the kernel that caused it.
// Otherwise CUDA reports an error inside a kernel at the next wait, which may be for another
// kernel.
inline bool waits_after_launches() {
  const char* value = std::getenv("SPECDEC_CUDA_SYNC");
  return value != nullptr && std::string_view(value) == "1";
}

// A stream, and the source line of a launch on it.
struct LaunchStream {
  LaunchStream(cudaStream_t stream_, const char* file_ = __builtin_FILE(),
               int line_ = __builtin_LINE())
      : stream(stream_), file(file_), line(line_) {}
  cudaStream_t stream;
  const char* file;
  int line;
  bool early = false;
  unsigned cluster = 1;
};

// For kernels that call await_kernels_before() (early.h).
inline LaunchStream early(cudaStream_t stream, const char* file = __builtin_FILE(),
                          int line = __builtin_LINE()) {
  LaunchStream at(stream, file, line);
  at.early = true;
  return at;
}

// In clusters of `blocks` neighbours along x, which run at the same time (cluster.h).
inline LaunchStream in_clusters(unsigned blocks, cudaStream_t stream,
                                const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  LaunchStream at(stream, file, line);
  at.cluster = blocks;
  return at;
}

[[noreturn]] inline void launch_failed(cudaError_t error, const void* kernel, dim3 grid, dim3 block,
                                       std::size_t shared_bytes, const LaunchStream& at) {
  const auto extent = [](dim3 d) {
    return std::to_string(d.x) + " x " + std::to_string(d.y) + " x " + std::to_string(d.z);
  };
  const std::string name = kernel_name(kernel);
  cudaGetLastError();  // clears what a wait or the look for the name may have left
  throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error) + " (" + name +
                           ", launched at " + at.file + ":" + std::to_string(at.line) + " with " +
                           extent(grid) + " blocks of " + extent(block) + " threads, " +
                           std::to_string(shared_bytes) + " bytes of dynamic shared memory)");
}

// Runs a kernel: with nvcc, as kernel<<<...>>>(...); with a C++ compiler, on the CPU. shared_bytes:
// of dynamic_shared(). Throws std::runtime_error, with the caller's file and line, if the launch is
// refused.
template <typename... Parameters>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            LaunchStream at, std::type_identity_t<Parameters>... arguments) {
  const bool begins_before = at.early && begins_early(reinterpret_cast<const void*>(kernel));
#ifdef SPECDEC_EMULATED
  if (emulation::can_launch(reinterpret_cast<const void*>(kernel), grid, block, shared_bytes,
                            at.cluster)) {
    emulation::enqueue_launch(
        at.stream, {grid, block, shared_bytes, [=] { kernel(arguments...); }, begins_before,
                    emulation::shared_limit(reinterpret_cast<const void*>(kernel)), at.cluster});
  }
#else
  cudaLaunchAttribute attributes[2]{};
  unsigned count = 0;
  if (begins_before) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (at.cluster != 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {at.cluster, 1, 1};
  }
  if (count > 0) {
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = at.stream;
    config.attrs = attributes;
    config.numAttrs = count;
    cudaLaunchKernelEx(&config, kernel, arguments...);
  } else {
    // clang-format off
    kernel<<<grid, block, shared_bytes, at.stream>>>(arguments...);
    // clang-format on
  }
#endif
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess && waits_after_launches()) error = cudaStreamSynchronize(at.stream);
  if (error == cudaSuccess) return;
  launch_failed(error, reinterpret_cast<const void*>(kernel), grid, block, shared_bytes, at);
}

// The block's dynamic shared memory, aligned to 16 bytes.
template <typename T>
__device__ T* dynamic_shared() {
#ifdef SPECDEC_EMULATED
  return static_cast<T*>(emulation::dynamic_shared_memory());
#else
  extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[];
  return reinterpret_cast<T*>(dynamic_shared_bytes);
#endif
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
