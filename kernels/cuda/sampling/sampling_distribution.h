#pragma once
#include <cstdint>
#include <cstring>

#include "kernels/cuda/sampling/sampling_block.h"
#include "kernels/cuda/sampling/sampling_tasks.h"

// From a row of logits to a distribution, by one block: the steps and the formulas of
// common/sampling/distribution.cpp. Only sums have another order. Device code: included by .cu
// files alone.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

__device__ inline std::uint64_t bits_of(double x) {
  std::uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

// An integer above 0 that is larger where the score is: the bits of a positive number are in order,
// those of a negative one in reverse. REQUIRES: no NaN, no -0.
__device__ inline std::uint64_t order_of(double score) {
  const std::uint64_t bits = bits_of(score), sign = std::uint64_t{1} << 63;
  return (bits & sign) != 0 ? ~bits : bits | sign;
}

// The largest key of an i < n at which the weights of all with that key or a larger one come to the
// goal; 0 where all of them together do not.
//
// This takes the place of a sort: halve the range of keys, add up what lies in its upper half, go
// on in the half that the goal lies in. A range ends at keys that exist, so it is soon a single
// one. Every sum has the same order, with zeros for what lies below, so a sum over fewer is never
// larger, however it rounds.
// REQUIRES: no weight is negative; highest, the largest key, is above 0.
template <typename Key, typename Weight>
__device__ std::uint64_t key_that_reaches(double goal, int n, std::uint64_t highest, const Key& key,
                                          const Weight& weight) {
  std::uint64_t low = 0, high = highest;
  // [snippet key-that-reaches]
  while (low < high) {
    const std::uint64_t middle = high - (high - low) / 2;
    std::uint64_t below = low, from = high;  // the next keys on both sides of the cut
    double sum = 0;
    for (int i = thread(); i < n; i += threads()) {
      const std::uint64_t k = key(i);
      if (k >= middle) {
        sum += weight(i);
        if (k < from) from = k;
      } else if (k > below) {
        below = k;
      }
    }
    if (block_tree_sum(sum) >= goal) {
      low = block_tree_min(from);
    } else {
      high = block_tree_max(below);
    }
  }
  // [end snippet key-that-reaches]
  return low;
}

// scores [V] = the logits, those of the history penalised, each once and from the original logit.
__device__ inline void penalise(const RowTask& row, int V, double* scores) {
  for (int i = thread(); i < V; i += threads()) {
    scores[i] = i < row.width ? row.logits[i] + 0.0 : -kInfinity;  // + 0: makes 0 of -0
  }
  __syncthreads();
  for (int h = thread(); h < row.history_size + row.path_size; h += threads()) {
    const int token = h < row.history_size ? row.history[h] : row.path[h - row.history_size];
    if (token >= row.width) continue;
    const double logit = row.logits[token], penalty = row.repetition_penalty;
    const double score = (logit < 0 ? logit * penalty : logit / penalty) + 0.0;
    // Atomic, as threads that have the same token write at once; they write the same.
    atomicExch(reinterpret_cast<unsigned long long*>(scores) + token, bits_of(score));
  }
  __syncthreads();
}

// Drops the scores below the k-th largest. peak: the largest.
__device__ inline void keep_top_k(int k, int V, double peak, double* scores) {
  const std::uint64_t last = key_that_reaches(
      k, V, order_of(peak), [&](int i) { return order_of(scores[i]); }, [](int) { return 1.0; });
  for (int i = thread(); i < V; i += threads()) {
    if (order_of(scores[i]) < last) scores[i] = -kInfinity;
  }
}

// Sets to zero what follows the likeliest tokens that hold top_p together. probs: not normalised.
__device__ inline void keep_top_p(double top_p, int V, double peak, const double* scores,
                                  double* probs) {
  const double total = sum_of(V, [&](int i) { return probs[i]; });
  const auto share = [&](int i) { return probs[i] / total; };
  const std::uint64_t last = key_that_reaches(
      top_p, V, order_of(peak), [&](int i) { return order_of(scores[i]); }, share);
  // Among tokens with the last one's score, the lower ids come first.
  const auto turn = [&](int i) -> std::uint64_t {
    const std::uint64_t order = order_of(scores[i]);
    if (order == last) return V - i;
    return order > last ? V + 1 : 0;
  };
  const std::uint64_t last_turn = key_that_reaches(top_p, V, V + 1, turn, share);
  for (int i = thread(); i < V; i += threads()) {
    if (turn(i) < last_turn) probs[i] = 0;
  }
}

// The row's probs; false where the row holds no distribution, and then probs is unspecified.
// scores: working memory, [V].
__device__ inline bool make_distribution(const RowTask& row, int V, double* scores) {
  double* probs = row.probs;
  penalise(row, V, scores);
  // A NaN counts as infinity here.
  const double peak =
      max_of(V, [&](int i) { return scores[i] < kInfinity ? scores[i] : kInfinity; });
  if (!(peak > -kInfinity && peak < kInfinity)) return false;
  if (row.temperature == 0) {
    const int best = argmax_of(V, [&](int i) { return scores[i]; });
    for (int i = thread(); i < V; i += threads()) probs[i] = i == best ? 1 : 0;
    __syncthreads();
    return true;
  }
  if (row.top_k > 0 && row.top_k < V) keep_top_k(row.top_k, V, peak, scores);
  for (int i = thread(); i < V; i += threads()) {
    probs[i] = exp((scores[i] - peak) / row.temperature);
  }
  if (row.top_p < 1) keep_top_p(row.top_p, V, peak, scores, probs);
  const double total = sum_of(V, [&](int i) { return probs[i]; });
  for (int i = thread(); i < V; i += threads()) probs[i] /= total;
  __syncthreads();  // whoever reads probs next takes other elements
  return true;
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
