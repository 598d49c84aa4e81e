#pragma once
#include "kernels/cuda/sampling/sampling_segments.h"
#include "kernels/exponential64.h"

// Shared by the kernels that make distributions. Device code, except find_last().
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

enum class Filter { kTopK, kTopP };

// Finds the last token that the filter keeps, in the rows that have this filter. Launches 2
// kernels.
void find_last(const Rows& rows, Filter filter, cudaStream_t stream);

__device__ inline bool has_top_k(const RowTask& row, int V) {
  return row.scale > 0 && row.top_k > 0 && row.top_k < V;
}
__device__ inline bool has_top_p(const RowTask& row) { return row.scale > 0 && row.top_p < 1; }

// A row's working memory.
__device__ inline float* scores_of(const Rows& rows) {
  return rows.scratch.scores + std::ptrdiff_t{row_number()} * rows.V;
}
__device__ inline double* sums_of(const Rows& rows) {
  return rows.scratch.sums + std::ptrdiff_t{row_number()} * segments_of(rows.V);
}
__device__ inline std::int32_t* ids_of(const Rows& rows) {
  return rows.scratch.ids + std::ptrdiff_t{row_number()} * segments_of(rows.V);
}

// The score from which a key was made; NaN for a NaN.
__device__ inline float score_of(unsigned long long key) {
  const std::uint32_t order = key >> 32;
  return __uint_as_float((order & 0x80000000u) != 0 ? order & 0x7fffffffu : ~order);
}
// Whether the largest score is finite. (NaN has the largest key.)
__device__ inline bool has_distribution(const RowState& state) {
  const float peak = score_of(state.peak);
  return peak - peak == 0;
}

// e^x as specified in kernels/exponential64.h.
__device__ inline double exponential64(double x) {
  using E = Exponential64;
  const double shifted = fma(x, E::per_ln2, E::shift);
  const double r = fma(shifted - E::shift, -E::ln2, x);
  double q = fma(E::q10, r, E::q9);
  q = fma(fma(fma(q, r, E::q8), r, E::q7), r, E::q6);
  q = fma(fma(fma(q, r, E::q5), r, E::q4), r, E::q3);
  q = fma(fma(fma(q, r, E::q2), r, E::q1), r, E::q0);
  const double power = fma(q, r, 1.0);
  const unsigned long long n = __double_as_longlong(shifted), bits = __double_as_longlong(power);
  return x < E::lowest ? 0 : __longlong_as_double(bits + (n << 52));
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
