#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "common/sampling/device_sampling.h"
#include "common/sampling/distribution.h"
#include "common/sampling/random_source.h"
#include "tests/cuda/kernel_test.h"
#include "tests/special_numbers.h"

// Random rows and options for the tests of the device's sampler, and the host's answers.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

inline std::size_t index_of(int i) { return static_cast<std::size_t>(i); }

// In (0, 1).
inline double fraction(TestNumbers& numbers) { return (numbers.number() + 1.0) / 2; }

template <typename T>
T one_of(TestNumbers& numbers, const std::vector<T>& items) {
  return items[index_of(numbers.below(static_cast<int>(items.size())))];
}

// Logits: all different, many ties, all equal, or some minus infinity; zeros of both signs.
inline void random_logits(TestNumbers& numbers, float* row, int width) {
  const int kind = numbers.below(5);
  for (int i = 0; i < width; ++i) {
    row[i] = 12 * numbers.number();
    if (kind == 1) row[i] = std::trunc(row[i] / 2) * 0.5f;
    if (kind == 2) row[i] = 3;
    if (kind == 3 && numbers.below(3) == 0) row[i] = -kInfinity;
  }
  if (kind == 4) std::fill(row + numbers.between(1, width), row + width, -kInfinity);
  if (row[0] == -kInfinity) row[0] = 1;
}

// The draft's logits: the target's, near them, others, or on tokens where the target has none.
inline void random_draft_logits(TestNumbers& numbers, const float* target, float* draft, int V) {
  const int kind = numbers.below(4);
  if (kind == 2) return random_logits(numbers, draft, V);
  bool any = false;
  for (int i = 0; i < V; ++i) {
    draft[i] = target[i] + (kind == 1 ? numbers.number() : 0);
    if (kind == 3) draft[i] = target[i] == -kInfinity ? 1 : -kInfinity;
    any |= draft[i] != -kInfinity;
  }
  if (!any) draft[numbers.below(V)] = 0;
}

inline SamplingOptions random_options(TestNumbers& numbers, int vocab_size) {
  SamplingOptions options;
  options.temperature = one_of<double>(numbers, {0, 1e-6, 0.5, 1, 1, 1, 2, 100, 1e20});
  options.top_k = one_of<int>(numbers, {0, 0, 1, numbers.between(1, vocab_size + 3)});
  options.top_p =
      one_of<double>(numbers, {1, 1, fraction(numbers), fraction(numbers), 1e-9, 1 - 1e-9});
  options.repetition_penalty = one_of<double>(numbers, {1, 1, 0.5, 1.3, 1000});
  return options;
}

inline std::vector<std::int32_t> random_history(TestNumbers& numbers, int vocab_size, int size) {
  std::vector<std::int32_t> history;
  for (int i = 0; i < size; ++i) history.push_back(numbers.below(vocab_size));
  return history;
}

// The host's distribution [vocab_size] of a row. Throws Error if there is none.
inline std::vector<double> host_probs(ConstDeviceRows logits, int r, const RowSampling& sampling,
                                      int vocab_size) {
  std::vector<float> row(index_of(vocab_size), -kInfinity);
  std::copy_n(logits.row(r), std::min(logits.width, vocab_size), row.begin());
  SamplingScratch scratch(vocab_size);
  std::vector<double> probs(row.size());
  probabilities(row, sampling.history,
                {sampling.temperature, sampling.top_k, sampling.top_p, sampling.repetition_penalty},
                scratch, probs);
  return probs;
}

inline bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
