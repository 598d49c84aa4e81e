#pragma once
#include <cfloat>
#include <limits>

#include "kernels/cuda/argmax/argmax_keys.h"
#include "kernels/cuda/last_block.h"
#include "kernels/cuda/sampling/sampling_philox.h"
#include "kernels/cuda/sampling/sampling_tasks.h"

// Divides a row's vocabulary among blocks, one segment per warp. blockIdx.y is the row (or the
// round, or the draft), blockIdx.x counts its blocks, which have a few whole warps. Sums and
// running sums have the order of kernels/sampling.h. Device code: only .cu files include it.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

constexpr int kMaxSamplingWarps = 4, kMaxSamplingThreads = kMaxSamplingWarps * kWarp;
// The fewest blocks of a kernel that share a multiprocessor: 1,024 threads with 64 registers each.
// Without this bound, ptxas sometimes allows only 32 registers, and spills.
constexpr int kSamplingBlocks = 8;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The negative arrival time of token i in Dice::race() (the Gumbel-max trick): larger means
// earlier; minus infinity if the token never arrives.
__device__ inline double arrival(double prob, std::uint64_t seed, int position, int i) {
  if (!(prob > 0)) return -kInfinity;
  const double time = -log(uniform(seed, position, kDrawRace, i)) / prob;
  return time < DBL_MAX ? -time : -DBL_MAX;
}

inline int warps_for(int V) {  // 1, 2 or 4
  return segments_of(V) == 1 ? 1 : segments_of(V) == 2 ? 2 : kMaxSamplingWarps;
}
// Launches kernel(arguments...) with the blocks of `count` rows of V tokens.
template <typename... Parameters>
void launch_segments(void (*kernel)(Parameters...), int V, int count, LaunchStream at,
                     std::type_identity_t<Parameters>... arguments) {
  if (count == 0) return;
  const int warps = warps_for(V);
  launch(kernel, dim3(blocks_for(segments_of(V), warps), count), warps * kWarp, 0, at,
         arguments...);
}

__device__ inline int thread() { return threadIdx.x; }
__device__ inline int threads() { return blockDim.x; }
__device__ inline int lane() { return thread() % kWarp; }
__device__ inline int row_number() { return blockIdx.y; }

// Tokens first .. last - 1; none for warps past the last segment.
struct Segment {
  int index, first, last;
};
__device__ inline Segment segment_of(int index, int V) {
  const int first = min(index * kSegment, V);
  return {index, first, min(first + kSegment, V)};
}
__device__ inline Segment own_segment(int V) {
  return segment_of((blockIdx.x * threads() + thread()) / kWarp, V);
}

template <typename Do>
__device__ void for_tokens(const Segment& segment, const Do& act) {
  for (int i = segment.first + lane(); i < segment.last; i += kWarp) act(i);
}

// act(i, load(i)) for the tokens of a segment, in the same order. In a whole segment, a lane
// requests the values of 8 tokens (4 if they have more than 8 bytes each) before it uses the first.
// One row of 128,256 tokens has only 501 warps. With one load at a time, they would keep 512 bytes
// in flight per multiprocessor of an RTX 4090, where 1,008 GB/s at 600 ns need 4.8 KB.
template <typename Load, typename Do>
__device__ void for_loaded_tokens(const Segment& segment, const Load& load, const Do& act) {
  if (segment.last - segment.first < kSegment) {
    for_tokens(segment, [&](int i) { act(i, load(i)); });
    return;
  }
  constexpr int kTogether = sizeof(load(0)) > sizeof(double) ? 4 : 8;
#pragma unroll 1
  for (int first = segment.first + lane(); first < segment.last; first += kTogether * kWarp) {
    decltype(load(0)) values[kTogether];
#pragma unroll
    for (int k = 0; k < kTogether; ++k) values[k] = load(first + k * kWarp);
#pragma unroll
    for (int k = 0; k < kTogether; ++k) act(first + k * kWarp, values[k]);
  }
}

// The sum of term(i) over a segment; every lane gets it.
template <typename Term>
__device__ double segment_sum(const Segment& segment, const Term& term) {
  double sum = 0;
  for_tokens(segment, [&](int i) { sum += term(i); });
  return warp_sum(sum);
}

// Where a running sum exceeds the mark.
template <typename T>
struct Place {
  int index = -1;  // of the first value above 0 where it does, otherwise of the last above 0, or -1
  T before;        // the sum of the values before it
  bool above = false;
  T total;  // if it never exceeds the mark
};

// Finds the place by one warp, among the values first .. last - 1, which follow the sum `before`.
// Valid in all lanes.
template <typename T, typename Value>
__device__ Place<T> place_above(T mark, T before, int first, int last, const Value& value) {
  Place<T> place{-1, before, false, before};
  for (int start = first; start < last; start += kWarp) {
    const T mine = start + lane() < last ? value(start + lane()) : T{0};
    T sum = mine;  // of the lanes up to this one
    for (int distance = 1; distance < kWarp; distance *= 2) {
      const T left = __shfl_up_sync(kAllLanes, sum, distance);
      if (lane() >= distance) sum += left;
    }
    const T left = __shfl_up_sync(kAllLanes, sum, 1u);
    const T ahead = lane() > 0 ? before + left : before;
    const unsigned positive = __ballot_sync(kAllLanes, mine > 0);
    const unsigned above = __ballot_sync(kAllLanes, mine > 0 && before + sum > mark);
    if (positive != 0) {
      const int hit = above != 0 ? __ffs(above) - 1 : kWarp - 1 - __clz(positive);
      place.index = start + hit;
      place.before = __shfl_sync(kAllLanes, ahead, hit);
      place.above = above != 0;
      if (place.above) return place;
    }
    before += __shfl_sync(kAllLanes, sum, kWarp - 1);
  }
  place.total = before;
  return place;
}

// The sum of all segments' sums, by one warp.
__device__ inline double total_of(const double* sums, int V) {
  return place_above(kInfinity, 0.0, 0, segments_of(V), [&](int s) { return __ldcg(sums + s); })
      .total;
}

// sample() of common/sampling/distribution.cpp, by one warp. sums: of the weights' segments.
// Returns -1 if all weights are zero.
template <typename Weight>
__device__ int draw(double u, const double* sums, int V, const Weight& weight) {
  const double mark = u * total_of(sums, V);
  const auto segment =
      place_above(mark, 0.0, 0, segments_of(V), [&](int s) { return __ldcg(sums + s); });
  if (segment.index < 0) return -1;
  const Segment within = segment_of(segment.index, V);
  return place_above(mark, segment.before, within.first, within.last, weight).index;
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
