// cuda_on_cpu.h -- the CUDA vocabulary our kernels use, for an ordinary C++ compiler.
// Included by launch.hpp when nvcc is not the compiler.  The scheduler is in scheduler.cpp.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <source_location>
#include <type_traits>

// ---------- keywords ----------
#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
// Blocks run one at a time, so a block's shared memory can be ordinary static variables.  clang
// puts them in a linker section of their own, so that every block can start with it full of NaNs
// (g++ 12 cannot do that inside templates).
#ifdef __clang__
#define __shared__ static __attribute__((section("cuda_shared")))
#else
#define __shared__ static
#endif

// ---------- types and built-in variables ----------
struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct __align__(8) float2 {
  float x, y;
};
struct __align__(16) float4 {
  float x, y, z, w;
};
struct __align__(16) uint4 {
  unsigned x, y, z, w;
};
struct __half {
  uint16_t bits;
};
inline float __half2float(__half h) { return float(std::bit_cast<_Float16>(h.bits)); }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline constexpr int warpSize = 32;
extern uint3 threadIdx, blockIdx;  // set whenever a thread gets its turn
extern dim3 blockDim, gridDim;
struct __nv_bfloat16 {
  uint16_t bits;
};  // the upper half of a float, rounded to nearest even
inline float __bfloat162float(__nv_bfloat16 b) {
  return std::bit_cast<float>(uint32_t(b.bits) << 16);
}
inline __nv_bfloat16 __float2bfloat16(float f) {
  uint32_t u = std::bit_cast<uint32_t>(f);
  return {(u & 0x7fffffff) > 0x7f800000 ? uint16_t(0x7fff)
                                        : uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16)};
}

// ---------- what scheduler.cpp provides ----------
namespace specdec::emulation {
struct Where {
  const char* file;
  int line;
  Where(const char* file_ = "kernel entry", int line_ = 0) : file(file_), line(line_) {}
#ifndef __clang__
  Where(std::source_location l) : file(l.file_name()), line(l.line()) {}
#endif
};
void run_grid(dim3 grid, dim3 block, size_t shared_bytes, void (*call)(void*), void* kernel_call);
void sync_block(Where);
uint64_t warp_collective(unsigned mask, uint64_t in, int src, bool orders_memory, Where);
int lane();
void* dynamic_shared_memory();
template <class T>
T shuffle(unsigned mask, T v, int src, Where w) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  uint64_t u = 0;
  T r;
  std::memcpy(&u, &v, sizeof v);
  u = warp_collective(mask, u, src, false, w);
  std::memcpy(&r, &u, sizeof r);
  return r;
}
}  // namespace specdec::emulation
#ifdef __clang__  // std::source_location needs clang 15; g++ 12 has no call-site __builtin_LINE()
                  // in templates
#define EMU_HERE specdec::emulation::Where w = {__builtin_FILE(), __builtin_LINE()}
#else
#define EMU_HERE specdec::emulation::Where w = std::source_location::current()
#endif

// ---------- device functions ----------
inline void __syncthreads(EMU_HERE) { specdec::emulation::sync_block(w); }
inline void __syncwarp(unsigned mask = ~0u, EMU_HERE) {
  specdec::emulation::warp_collective(mask, 0, -1, true, w);
}
inline unsigned __ballot_sync(unsigned m, int p, EMU_HERE) {
  return unsigned(specdec::emulation::warp_collective(m, p != 0, -1, false, w));
}
inline int __any_sync(unsigned m, int p, EMU_HERE) { return __ballot_sync(m, p, w) != 0; }
inline int __all_sync(unsigned m, int p, EMU_HERE) { return __ballot_sync(m, p, w) == m; }
template <class T>
T __shfl_sync(unsigned m, T v, int src, int width = 32, EMU_HERE) {
  return specdec::emulation::shuffle(
      m, v, (specdec::emulation::lane() & -width) + (src & (width - 1)), w);
}
template <class T>
T __shfl_xor_sync(unsigned m, T v, int x, int width = 32, EMU_HERE) {
  int l = specdec::emulation::lane(), s = l ^ x;
  return specdec::emulation::shuffle(m, v, s < (l & -width) + width ? s : l, w);
}
template <class T>
T __shfl_down_sync(unsigned m, T v, int d, int width = 32, EMU_HERE) {
  int l = specdec::emulation::lane(), s = l + d;
  return specdec::emulation::shuffle(m, v, s < (l & -width) + width ? s : l, w);
}
template <class T>
T __shfl_up_sync(unsigned m, T v, int d, int width = 32, EMU_HERE) {
  int l = specdec::emulation::lane(), s = l - d;
  return specdec::emulation::shuffle(m, v, s >= (l & -width) ? s : l, w);
}
template <class T>
T __ldg(const T* p) {
  return *p;
}
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
#define EMU_ATOMIC(name, expr)                                                    \
  template <class T>                                                              \
  T name(T* p, std::type_identity_t<T> v) {                                       \
    using U = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;             \
    U* a = reinterpret_cast<U*>(p);                                               \
    U seen = __atomic_load_n(a, __ATOMIC_RELAXED);                                \
    for (;;) {                                                                    \
      T old = std::bit_cast<T>(seen);                                             \
      if (__atomic_compare_exchange_n(a, &seen, std::bit_cast<U>(T(expr)), false, \
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED))        \
        return old;                                                               \
    }                                                                             \
  }
EMU_ATOMIC(atomicAdd, old + v)
EMU_ATOMIC(atomicMax, old > v ? old : v)
EMU_ATOMIC(atomicMin, old < v ? old : v)
EMU_ATOMIC(atomicExch, v)
#undef EMU_ATOMIC

// ---------- runtime calls used by the host code: device memory is host memory ----------
using cudaStream_t = void*;
enum cudaError_t { cudaSuccess, cudaErrorMemoryAllocation };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
template <class T>
cudaError_t cudaMalloc(T** p, size_t bytes) {
  *p = static_cast<T*>(std::malloc(bytes));
  if (!*p) return cudaErrorMemoryAllocation;
  std::memset(*p, 255, bytes);  // fresh memory is full of NaNs
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* p) {
  std::free(p);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* d, const void* s, size_t bytes, cudaMemcpyKind) {
  std::memcpy(d, s, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemset(void* d, int v, size_t bytes) {
  std::memset(d, v, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "out of memory";
}
inline cudaError_t cudaMemcpyAsync(void* d, const void* s, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t) {
  return cudaMemcpy(d, s, bytes, kind);
}
