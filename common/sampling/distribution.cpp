#include "common/sampling/distribution.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/base/check.h"
#include "common/base/error.h"

namespace specdec {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::size_t index_of(TokenId token) { return static_cast<std::size_t>(token); }

// The sum of what one can draw from.
double total_of(std::span<const double> probs) {
  double total = 0;
  for (const double prob : probs) {
    SPECDEC_CHECK(prob >= 0, "a probability of at least 0, not {}", prob);
    total += prob;
  }
  SPECDEC_CHECK(total > 0 && total < kInfinity,
                "a positive and finite total of the probabilities, not {}", total);
  return total;
}

}  // namespace

void check_temperature(double temperature, std::string_view option) {
  if (!(temperature >= 0 && temperature < kInfinity)) {
    fail("{} is {}; it takes a number of at least 0 (0: always the likeliest token)", option,
         temperature);
  }
}

void check_sampling_options(const SamplingOptions& options) {
  check_temperature(options.temperature);
  if (options.top_k < 0) {
    fail("--top-k is {}; it takes a number of tokens (0: no limit)", options.top_k);
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    fail("--top-p is {}; it takes a number above 0 and at most 1 (1: no limit)", options.top_p);
  }
  if (!(options.repetition_penalty > 0 && options.repetition_penalty < kInfinity)) {
    fail("--repetition-penalty is {}; it takes a number above 0 (1: no penalty)",
         options.repetition_penalty);
  }
}

SamplingScratch::SamplingScratch(int vocab_size)
    : scores_(index_of(vocab_size)), ids_(index_of(vocab_size)) {}

// The steps of probabilities() for the first n tokens, on the memory of one call.
class SamplingPipeline {
 public:
  SamplingPipeline(SamplingScratch& scratch, std::span<double> probs)
      : scores_(std::span(scratch.scores_).first(probs.size())),
        ids_(std::span(scratch.ids_).first(probs.size())),
        probs_(probs) {}

  // scores = the logits, those of the history penalised. Each from the original logit, so that a
  // token which occurs twice is penalised once.
  void penalise(std::span<const float> logits, std::span<const TokenId> history, double penalty) {
    std::copy_n(logits.begin(), scores_.size(), scores_.begin());
    if (penalty == 1) return;
    for (const TokenId token : history) {
      SPECDEC_CHECK(token >= 0 && index_of(token) < logits.size(),
                    "token {} of the history to be below the vocabulary's size {}", token,
                    logits.size());
      if (index_of(token) >= scores_.size()) continue;
      const double logit = logits[index_of(token)];
      scores_[index_of(token)] = logit < 0 ? logit * penalty : logit / penalty;
    }
  }

  // The largest score, the lowest id among equals.
  TokenId best() const {
    TokenId best = 0;
    for (std::size_t i = 0; i < scores_.size(); i++) {
      if (!(scores_[i] < kInfinity)) {
        fail(
            "there is nothing to sample from: the logit of token {} is {}; the model's weights "
            "may be damaged",
            i, scores_[i]);
      }
      if (scores_[i] > scores_[index_of(best)]) best = static_cast<TokenId>(i);
    }
    if (scores_[index_of(best)] == -kInfinity) {
      fail("there is nothing to sample from: every logit is minus infinity");
    }
    return best;
  }

  void one_hot(TokenId token) {
    std::fill(probs_.begin(), probs_.end(), 0.0);
    probs_[index_of(token)] = 1;
  }

  // Drops the scores below the k-th largest. REQUIRES: 0 < k < n.
  void keep_top_k(int k) {
    std::iota(ids_.begin(), ids_.end(), 0);
    std::nth_element(ids_.begin(), ids_.begin() + (k - 1), ids_.end(),
                     [&](TokenId a, TokenId b) { return likelier(a, b); });
    const double last = scores_[index_of(ids_[index_of(k - 1)])];
    for (double& score : scores_) {
      if (score < last) score = -kInfinity;
    }
  }

  // probs = exp((score - largest) / temperature), not yet normalised. With the largest taken off
  // first, no temperature is so small that the quotient overflows upwards.
  void exponentiate(TokenId largest, double temperature) {
    const double peak = scores_[index_of(largest)];
    for (std::size_t i = 0; i < scores_.size(); i++) {
      probs_[i] = std::exp((scores_[i] - peak) / temperature);
    }
  }

  // Sets to zero what follows the likeliest tokens that hold top_p together. Few are kept as a
  // rule, so they come off a heap; sorting all would take longer than everything else.
  void keep_top_p(double top_p) {
    const double total = sum();
    const auto last_is_likelier = [&](TokenId a, TokenId b) { return likelier(b, a); };
    std::iota(ids_.begin(), ids_.end(), 0);
    std::make_heap(ids_.begin(), ids_.end(), last_is_likelier);
    auto end = ids_.end();
    for (double before = 0; before < top_p && end != ids_.begin();) {
      std::pop_heap(ids_.begin(), end, last_is_likelier);
      before += probs_[index_of(*--end)] / total;
    }
    std::for_each(ids_.begin(), end, [&](TokenId dropped) { probs_[index_of(dropped)] = 0; });
  }

  void normalise() {
    const double total = sum();
    for (double& prob : probs_) prob /= total;
  }

 private:
  bool likelier(TokenId a, TokenId b) const {
    const double score_a = scores_[index_of(a)], score_b = scores_[index_of(b)];
    return score_a > score_b || (score_a == score_b && a < b);
  }
  double sum() const { return std::accumulate(probs_.begin(), probs_.end(), 0.0); }

  std::span<double> scores_;  // [n]
  std::span<TokenId> ids_;    // [n]
  std::span<double> probs_;   // [n]
};

// How many logits there are before those at the end that are minus infinity; at least 1.
std::size_t without_padding(std::span<const float> logits) {
  std::size_t n = logits.size();
  while (n > 1 && logits[n - 1] == -std::numeric_limits<float>::infinity()) n--;
  return n;
}

void probabilities(std::span<const float> logits, std::span<const TokenId> history,
                   const SamplingOptions& options, SamplingScratch& scratch,
                   std::span<double> probs) {
  check_sampling_options(options);
  SPECDEC_CHECK(!logits.empty() && logits.size() == probs.size() &&
                    logits.size() <= index_of(scratch.vocab_size()),
                "{} logits and {} probabilities to be as many, and at most the scratch's {} tokens",
                logits.size(), probs.size(), scratch.vocab_size());
  const std::size_t n = without_padding(logits);
  std::ranges::fill(probs.subspan(n), 0.0);
  SamplingPipeline pipeline(scratch, probs.first(n));
  pipeline.penalise(logits, history, options.repetition_penalty);
  const TokenId best = pipeline.best();
  if (options.temperature == 0) return pipeline.one_hot(best);
  // The temperature keeps the order of the scores, so top-k may come before the division.
  if (options.top_k > 0 && index_of(options.top_k) < n) pipeline.keep_top_k(options.top_k);
  pipeline.exponentiate(best, options.temperature);
  if (options.top_p < 1) pipeline.keep_top_p(options.top_p);
  pipeline.normalise();
}

TokenId sample(std::span<const double> probs, double u) {
  SPECDEC_CHECK(u >= 0 && u < 1, "a uniform of at least 0 and below 1, not {}", u);
  const double total = total_of(probs);
  TokenId last_possible = 0;
  double cumulative = 0;
  for (std::size_t i = 0; i < probs.size(); i++) {
    if (probs[i] > 0) last_possible = static_cast<TokenId>(i);
    cumulative += probs[i];
    if (cumulative > u * total) return last_possible;
  }
  return last_possible;  // u * total was rounded up to the total
}

}  // namespace specdec
