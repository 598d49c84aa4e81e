#pragma once
#include "kernels/cuda/sampling/sampling_segments.h"

// Collectives for one block that processes a whole row of the vocabulary, for the kernels of trees.
// All threads of the block call them together, and all get the result; blocks have whole warps.
// `sums` has room for one number per segment, and no other block uses it. Sums and draws have the
// order of kernels/sampling.h. Device code: only .cu files include it.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

constexpr int kMaxRowThreads = 1024;

// The number of threads in a block that reads a row of V tokens.
inline int row_threads(int V) {
  int count = kWarp;
  while (count < kMaxRowThreads && count * 16 < V) count *= 2;
  return count;
}

// Writes the sums of all segments.
template <typename Weight>
__device__ void sum_segments(double* sums, int V, const Weight& weight) {
  for (int s = thread() / kWarp; s < segments_of(V); s += threads() / kWarp) {
    const double sum = segment_sum(segment_of(s, V), weight);
    if (lane() == 0) sums[s] = sum;
  }
  __threadfence();
  __syncthreads();
}

// Gives all threads the result of the first warp. Afterwards, `sums` may be overwritten.
template <typename T, typename Find>
__device__ T by_first_warp(const Find& find) {
  __shared__ T found;
  if (thread() < kWarp) {
    const T mine = find();
    if (thread() == 0) found = mine;
  }
  __syncthreads();
  const T result = found;
  __syncthreads();
  return result;
}

// The sum of weight(i) over i < V.
template <typename Weight>
__device__ double sum_of(double* sums, int V, const Weight& weight) {
  sum_segments(sums, V, weight);
  return by_first_warp<double>([&] { return total_of(sums, V); });
}

// sample() of common/sampling/distribution.cpp: -1 if all weights are zero.
template <typename Weight>
__device__ int draw_by_block(double u, double* sums, int V, const Weight& weight) {
  sum_segments(sums, V, weight);
  return by_first_warp<int>([&] { return draw(u, sums, V, weight); });
}

// The smallest value(i) over i < V, and at most 1.
template <typename Value>
__device__ double smallest_of(int V, const Value& value) {
  double smallest = 1;
  for (int i = thread(); i < V; i += threads()) smallest = fmin(smallest, value(i));
  return block_tree_min(smallest);
}

// The lowest i < V with the largest value(i), which must be above minus infinity; V if there is
// none.
template <typename Value>
__device__ int argmax_of(int V, const Value& value) {
  double largest = -kInfinity;
  int at = V;
  for (int i = thread(); i < V; i += threads()) {
    const double mine = value(i);
    if (mine > largest) {
      largest = mine;
      at = i;
    }
  }
  return block_tree_min(largest == block_tree_max(largest) ? at : V);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
