#pragma once
#include <cstddef>
#include <type_traits>

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/runtime.h"

// The only place where the two builds of a kernel's source differ.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// Runs a kernel: by nvcc, kernel<<<...>>>(...); by a C++ compiler, on the CPU, and it is done when
// this returns. shared_bytes: of dynamic_shared(). Throws Error where the launch is refused.
template <typename... Parameters>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, std::type_identity_t<Parameters>... arguments) {
#ifdef SPECDEC_EMULATED
  static_cast<void>(stream);
  auto call = [&] { kernel(arguments...); };
  if (emulation::can_launch(reinterpret_cast<const void*>(kernel), grid, block, shared_bytes)) {
    emulation::run_grid(
        grid, block, shared_bytes, [](void* f) { (*static_cast<decltype(call)*>(f))(); }, &call);
  }
#else
  // clang-format off
  kernel<<<grid, block, shared_bytes, stream>>>(arguments...);
  // clang-format on
#endif
  cuda_check(cudaGetLastError());
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
