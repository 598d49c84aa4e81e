#pragma once
#include <limits>

#include "kernels/cuda/reduce.h"

// Collectives of a block for the kernels that sample. All threads of the block call them together
// and all get the result; blocks are one-dimensional, of 32, 64, 128, ... 1,024 threads. The order
// of summation depends on the number of elements and of threads alone. Device code: included by .cu
// files alone.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

constexpr int kMaxSamplingThreads = 1024;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// How many a block has: of the vocabulary alone, as the order of sums goes by them.
inline unsigned threads_for(int vocab_size) {
  unsigned count = kWarp;
  while (count < kMaxSamplingThreads && count * 16 < static_cast<unsigned>(vocab_size)) count *= 2;
  return count;
}

__device__ inline int thread() { return static_cast<int>(threadIdx.x); }
__device__ inline int threads() { return static_cast<int>(blockDim.x); }

// The sum of term(i) over i < n.
template <typename Term>
__device__ double sum_of(int n, const Term& term) {
  double sum = 0;
  for (int i = thread(); i < n; i += threads()) sum += term(i);
  return block_tree_sum(sum);
}

// The largest value(i) over i < n; minus infinity where n is 0.
template <typename Value>
__device__ double max_of(int n, const Value& value) {
  double largest = -kInfinity;
  for (int i = thread(); i < n; i += threads()) {
    const double mine = value(i);
    if (mine > largest) largest = mine;
  }
  return block_tree_max(largest);
}

// The lowest i < n with the largest value(i) above minus infinity; n where there is none.
template <typename Value>
__device__ int argmax_of(int n, const Value& value) {
  double largest = -kInfinity;
  int at = n;
  for (int i = thread(); i < n; i += threads()) {
    const double mine = value(i);
    if (mine > largest) {
      largest = mine;
      at = i;
    }
  }
  return block_tree_min(largest == block_tree_max(largest) ? at : n);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
