#pragma once
#include "kernels/cuda/kv_number.h"
#include "kernels/cuda/rope.h"

// How kernels rotate q and k: those of rope.cu, and products that do it at their end. Device code:
// only .cu files include it.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// Two elements of a head that are rotated together.
struct Pair {
  float first, second;
};

// The index in its row of pair n's first element; the second is `half` further on.
__device__ inline int start_of_pair(int n, int half) { return n / half * 2 * half + n % half; }

__device__ inline Pair pair_at(const float* start, int half) { return {start[0], start[half]}; }
template <typename T>
__device__ void put(T* start, int half, Pair pair) {
  round_to(pair.first, start[0]);
  round_to(pair.second, start[half]);
}

__device__ inline Pair turned(Pair pair, float cosine, float sine) {
  return {fmaf(pair.first, cosine, -(pair.second * sine)),
          fmaf(pair.second, cosine, pair.first * sine)};
}

// Rotates pair n of row t if it is one of q or k, and puts it where it goes. The pairs of q, k and
// v have one numbering.
__device__ inline void rope_store_pair(const RopeStore& to, Pair pair, int n, int t, DeviceRows q) {
  const int half = to.cosines.width, q_pairs = to.q_width / 2, kv_pairs = to.kv_width / 2;
  if (n < q_pairs + kv_pairs) {
    pair = turned(pair, row_of(to.cosines, t)[n % half], row_of(to.sines, t)[n % half]);
  }
  if (n < q_pairs) return put(row_of(q, t) + start_of_pair(n, half), half, pair);
  n -= q_pairs;
  const bool is_value = n >= kv_pairs;
  if (is_value) n -= kv_pairs;
  void* const rows = is_value ? to.cache.values : to.cache.keys;
  const std::ptrdiff_t at = std::ptrdiff_t{to.slots[t]} * to.kv_width + start_of_pair(n, half);
  if (to.cache.type == KvType::kBF16) return put(static_cast<BFloat16*>(rows) + at, half, pair);
  put(static_cast<float*>(rows) + at, half, pair);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
