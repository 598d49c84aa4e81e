#pragma once
#include <cfloat>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/device_code.h"
#include "kernels/cuda/kv_number.h"
#include "kernels/cuda/reduce.h"

// Shared by all steps of attention. Device code.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// The offset of position j of a sequence in keys and values, in numbers; its heads follow from
// there.
// [snippet offset-of]
__device__ inline std::ptrdiff_t offset_of(const std::int32_t* pages, int page_size, int j,
                                           const HeadShape& heads) {
  const std::ptrdiff_t page = pages[j / page_size];
  return (page * page_size + j % page_size) * heads.n_kv_heads * heads.head_dim;
}
// [end snippet offset-of]

// The offset of position j for row t, which may have a tail.
__device__ inline std::ptrdiff_t offset_of_row(const RowPlaces& places, int t, int j,
                                               const HeadShape& heads) {
  if (places.tail_firsts == nullptr || j < places.tail_firsts[t]) {
    return offset_of(places.page_tables + places.table_starts[t], places.page_size, j, heads);
  }
  const std::ptrdiff_t slot = places.tail_slots[places.tail_starts[t] + j - places.tail_firsts[t]];
  return slot * heads.n_kv_heads * heads.head_dim;
}

// The factor of all scores.
__device__ inline float score_scale(int head_dim) { return 1.0f / sqrtf(head_dim); }

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
