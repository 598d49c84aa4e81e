#pragma once
#include <cfloat>

#include "kernels/cuda/sampling/sampling_block.h"
#include "kernels/cuda/sampling/sampling_philox.h"

// Draws of tokens by one block: sample() of common/sampling/distribution.cpp and Dice of
// common/sampling/random_source.cpp. Device code: included by .cu files alone.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// By one warp: the first of the tokens first .. last - 1 at which `before` and the cumulative
// weights exceed the mark; else the last one that has a weight, or -1. Valid in all lanes.
template <typename Weight>
__device__ int first_above(double mark, double before, int first, int last, const Weight& weight) {
  const int lane = thread() % kWarp;
  int last_possible = -1;
  for (int start = first; start < last; start += kWarp) {
    const double mine = start + lane < last ? weight(start + lane) : 0;
    double sum = mine;  // of the lanes up to this one
    for (int distance = 1; distance < kWarp; distance *= 2) {
      const double left = __shfl_up_sync(kAllLanes, sum, distance);
      if (lane >= distance) sum += left;
    }
    const unsigned above = __ballot_sync(kAllLanes, mine > 0 && before + sum > mark);
    if (above != 0) return start + __ffs(static_cast<int>(above)) - 1;
    if (mine > 0) last_possible = start + lane;
    before += __shfl_sync(kAllLanes, sum, kWarp - 1);
  }
  return warp_max(last_possible);
}

// Draws by inversion: the first i < n, in order, at which the cumulative weights exceed u times
// their total; never one of weight zero. -1 where all weights are zero. Each warp adds up its own
// region of tokens; the one whose region holds the answer walks through it.
template <typename Weight>
__device__ int draw(int n, double u, const Weight& weight) {
  __shared__ double region_sums[kWarp];
  __shared__ int drawn;
  const int warps = threads() / kWarp, warp = thread() / kWarp, lane = thread() % kWarp;
  const int region = (n + warps - 1) / warps;
  const int first = warp * region < n ? warp * region : n;
  const int last = first + region < n ? first + region : n;
  double mine = 0;
  for (int i = first + lane; i < last; i += kWarp) mine += weight(i);
  mine = warp_sum(mine);
  if (lane == 0) region_sums[warp] = mine;
  if (thread() == 0) drawn = -1;
  __syncthreads();

  double total = 0;
  for (int w = 0; w < warps; ++w) total += region_sums[w];
  int winner = -1;
  double cumulative = 0, before = 0;  // before the winner's region
  for (int w = 0; w < warps; ++w) {
    if (!(region_sums[w] > 0)) continue;
    winner = w;
    before = cumulative;
    cumulative += region_sums[w];
    if (cumulative > u * total) break;
  }
  if (warp == winner) {
    const int found = first_above(u * total, before, first, last, weight);
    if (lane == 0) drawn = found;
  }
  __syncthreads();
  const int token = drawn;
  __syncthreads();  // the next call writes the shared memory
  return token;
}

// Dice::token(): from probs [V].
__device__ inline int draw_token(const double* probs, int V, std::uint64_t seed, int position,
                                 std::uint32_t purpose, int index = 0) {
  return draw(V, uniform(seed, position, purpose, index), [&](int i) { return probs[i]; });
}

// Dice::race(): the first to arrive, the lowest id among those that arrive at once.
__device__ inline int race(const double* probs, int V, std::uint64_t seed, int position) {
  return argmax_of(V, [&](int i) {
    if (!(probs[i] > 0)) return -kInfinity;  // never arrives
    const double time = -log(fine_uniform(seed, position, kDrawRace, i)) / probs[i];
    return time < DBL_MAX ? -time : -DBL_MAX;
  });
}

__device__ inline int largest(const double* probs, int V) {
  return argmax_of(V, [&](int i) { return probs[i]; });
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
