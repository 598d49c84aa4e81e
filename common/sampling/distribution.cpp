#include "common/sampling/distribution.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/sampling/bad_logits.h"
#include "common/sampling/sampling_ranges.h"
#include "kernels/cpu/softmax.h"

namespace specdec {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The sum of probabilities that a token can be drawn from.
double total_of(std::span<const double> probs) {
  const double total = cpu::sum(probs);
  if (std::isnan(total)) {
    for (const double prob : probs) {
      SPECDEC_CHECK(prob >= 0, "a probability of at least 0, not {}", prob);
    }
  }
  SPECDEC_CHECK(total > 0 && total < kInfinity,
                "a positive and finite total of the probabilities, not {}", total);
  return total;
}

}  // namespace

void check_temperature(double temperature, std::string_view option) {
  check_range(kTemperatures, temperature, option);
}

void check_sampling_options(const SamplingOptions& options) {
  check_temperature(options.temperature);
  if (options.top_k < 0) {
    fail("--top-k is {}; it takes a number of tokens (0: no limit)", options.top_k);
  }
  check_range(kTopPs, options.top_p, "--top-p");
  check_range(kRepetitionPenalties, options.repetition_penalty, "--repetition-penalty");
}

SamplingScratch::SamplingScratch(int vocab_size)
    : scores_(vocab_size),
      kept_scores_(scores_.size()),
      work_(scores_.size()),
      weights_(scores_.size()),
      keys_(scores_.size()),
      ids_(scores_.size()) {
  SPECDEC_CHECK(vocab_size < 1 << 20, "a vocabulary of less than 2^20 tokens, not {}", vocab_size);
}

// The steps of probabilities() for the first n tokens, on the memory of one call.
class SamplingPipeline {
 public:
  SamplingPipeline(SamplingScratch& scratch, std::span<const float> logits, std::span<double> probs)
      : scratch_(scratch), logits_(logits), scores_(logits.first(probs.size())), probs_(probs) {}

  // Each score comes from the original logit, so a token that occurs twice is penalised once.
  void penalise(std::span<const float> logits, std::span<const TokenId> history, double penalty) {
    if (penalty == 1) return;
    const auto scores = std::span(scratch_.scores_).first(scores_.size());
    std::ranges::copy(scores_, scores.begin());
    for (const TokenId token : history) {
      SPECDEC_CHECK(token >= 0 && token < std::ssize(logits),
                    "token {} of the history to be below the vocabulary's size {}", token,
                    logits.size());
      if (token >= std::ssize(scores)) continue;
      const double logit = logits[token];
      scores[token] = logit < 0 ? logit * penalty : logit / penalty;
    }
    scores_ = scores;
  }

  // Looks at every score. Throws BadLogits where there is no distribution.
  void find_peak() {
    peak_ = cpu::largest_score(scores_);
    if (peak_ == -kInfinity) {
      throw BadLogits("logits are all minus infinity, so there is nothing to sample from");
    }
    if (std::isfinite(peak_)) return;
    const auto bad = std::ranges::find_if_not(scores_, [](float s) { return s < kInfinity; });
    const std::ptrdiff_t token = bad - scores_.begin();
    if (const float logit = logits_[token]; std::isfinite(logit)) {
      throw BadLogits(
          fmt::format("logits leave nothing to sample from: the repetition penalty makes the logit "
                      "{} of token {} infinite",
                      logit, token));
    }
    throw BadLogits(
        fmt::format("logit of token {} is {}, so there is nothing to sample from; its weights may "
                    "be damaged",
                    token, *bad));
  }

  // Probability 1 for the largest score, the lowest id among equals.
  void one_hot() {
    std::ranges::fill(probs_, 0.0);
    probs_[std::ranges::find(scores_, peak_) - scores_.begin()] = 1;
  }

  void softmax(double temperature) {
    const double total = cpu::exponentiate(scores_, peak_, scale_of(temperature), probs_);
    cpu::multiply(probs_, 1 / total);
  }

  // The same over the tokens that the filters keep.
  void filtered_softmax(const SamplingOptions& options) {
    const double scale = scale_of(options.temperature);
    double total = 0;
    if (options.top_k > 0 && options.top_k < std::ssize(scores_)) {
      // The temperature keeps the order of the scores, so top-k may come before the division.
      keep_top_k(options.top_k);
      cpu::exponentiate(kept_scores(), peak_, scale, weights());
      total = cpu::sum(ids(), weights());
    } else {
      total = cpu::sum_of_exponentials(scores_, peak_, scale);
      keep_candidates(options, total, units_of(options.top_p * total));
    }
    if (options.top_p < 1) {
      keep_top_p(units_of(options.top_p * total));
      total = cpu::sum(ids(), weights());
    }
    cpu::multiply(weights(), 1 / total);
    std::ranges::fill(probs_, 0.0);
    for (std::size_t j = 0; j < count_; ++j) probs_[ids()[j]] = weights()[j];
  }

 private:
  // Of the tokens that are still kept, in the order of ids.
  std::span<TokenId> ids() const { return std::span(scratch_.ids_).first(count_); }
  std::span<float> kept_scores() const { return std::span(scratch_.kept_scores_).first(count_); }
  std::span<double> weights() const { return std::span(scratch_.weights_).first(count_); }

  // The scale in e^((score - peak) x scale). Since the peak is subtracted first, no weight
  // overflows, however small the temperature is.
  static double scale_of(double temperature) {
    return std::min(1 / temperature, std::numeric_limits<double>::max());
  }

  // Minus infinity is never kept.
  void keep_at_least(float score) {
    count_ = cpu::collect_at_least(std::max(score, std::numeric_limits<float>::lowest()), scores_,
                                   scratch_.ids_, scratch_.kept_scores_);
  }

  // Keeps the j of the kept tokens for which keep(j) is true.
  template <typename Keep>
  void keep_only(const Keep& keep) {
    std::size_t count = 0;
    for (std::size_t j = 0; j < count_; ++j) {
      const bool kept = keep(j);
      scratch_.ids_[count] = scratch_.ids_[j];
      scratch_.kept_scores_[count] = scratch_.kept_scores_[j];
      scratch_.weights_[count] = scratch_.weights_[j];
      count += kept;
    }
    count_ = count;
  }

  // Keeps the k largest scores, and those equal to the last of them. REQUIRES: 0 < k < n.
  void keep_top_k(std::size_t k) {
    const auto kth_largest = [k](std::span<float> scores) {
      const auto kth = scores.begin() + (k - 1);
      std::nth_element(scores.begin(), kth, scores.end(), std::greater());
      return *kth;
    };
    // Deal the scores out to 4k columns. If the largest scores of k columns are at least some
    // bound, then at least k tokens are. Few columns have two such scores, so there are few tokens
    // more.
    float bound = -kInfinity;
    const std::size_t columns = (4 * k + 15) / 16 * 16;
    if (columns <= scores_.size() / 2) {
      const auto maxima = std::span(scratch_.work_).first(columns);
      cpu::column_maxima(scores_, maxima);
      bound = kth_largest(maxima);
    }
    keep_at_least(bound);
    if (count_ <= k) return;
    const auto scores = std::span(scratch_.work_).first(count_);
    std::ranges::copy(kept_scores(), scores.begin());
    const float last = kth_largest(scores);
    keep_only([&](std::size_t j) { return kept_scores()[j] >= last; });
  }

  // Keeps the tokens of at least some score, so that together they have the wanted units, or all
  // the units there are. A token with the first guess at this score weighs a 256th of what top-p
  // leaves out.
  void keep_candidates(const SamplingOptions& options, double total, std::uint64_t wanted) {
    double below = std::max(1.0, -std::log((1 - options.top_p) * total / 256));  // x in e^-x
    for (;; below *= 1.3) {
      const float lowest = std::max<double>(peak_ - options.temperature * below,
                                            std::numeric_limits<float>::lowest());
      keep_at_least(std::nextafter(lowest, -kInfinity));
      cpu::exponentiate(kept_scores(), peak_, scale_of(options.temperature), weights());
      // e^-32 rounds to no unit.
      if (below >= 32 || cpu::sum_of_units(weights()) >= wanted) return;
    }
  }

  // Larger for a likelier token: for a larger score, and among equals for the lower id. The upper
  // half holds a float's bits in the order of integers, with -0 as +0.
  std::uint64_t likelihood(std::size_t j) const {
    const auto bits = std::bit_cast<std::uint32_t>(kept_scores()[j] + 0.0f);
    const std::uint32_t order = bits >> 31 != 0 ? ~bits : bits | 1u << 31;
    return static_cast<std::uint64_t>(order) << 32 | ~static_cast<std::uint32_t>(j);
  }
  std::uint64_t units(std::size_t j) const { return cpu::sum_of_units(weights().subspan(j, 1)); }

  static std::uint64_t units_of(double share) { return std::ceil(share / kWeightUnit); }

  // Keeps the likeliest of the kept tokens that come to as many units together. A token without a
  // unit is not among them.
  void keep_top_p(std::uint64_t wanted) {
    const std::uint64_t goal = std::min(wanted, cpu::sum_of_units(weights()));
    const Bracket bounds = bracket(goal);
    keep_only([&](std::size_t j) { return weights()[j] >= bounds.low; });
    const std::uint64_t last = last_to_reach(goal, bounds.high);
    keep_only([&](std::size_t j) { return likelihood(j) >= last; });
  }

  // Two weights: the tokens of at least the lower weight surely reach the goal, and those of at
  // least the higher weight surely do not.
  struct Bracket {
    double low, high;
  };
  Bracket bracket(double goal) const {
    double low = -46, high = 1;  // log2 of less than a unit, and of more than the peak
    const double rounding = count_ + 1e-9 * goal;
    for (int step = 0; step < 9; ++step) {
      const double middle = (low + high) / 2;
      const double held = cpu::sum_at_least(std::exp2(middle), weights()) / kWeightUnit;
      if (std::abs(held - goal) <= rounding) break;
      (held > goal ? low : high) = middle;
    }
    // The last bits of weights need not have the order of the scores.
    return {std::exp2(low) * (1 - 1e-9), std::exp2(high) * (1 + 1e-9)};
  }

  // The likelihood of the last token that is needed to reach the goal; it weighs less than `high`.
  // Instead of sorting, this finds again and again in which half of a range the token is.
  std::uint64_t last_to_reach(std::uint64_t goal, double high) {
    std::uint64_t held = 0;  // by all tokens that are likelier than those in the range
    std::size_t size = 0;
    for (std::size_t j = 0; j < count_; ++j) {
      scratch_.keys_[size] = likelihood(j);
      const bool in_range = weights()[j] < high;
      held += in_range ? 0 : units(j);
      size += in_range;
    }
    auto range = std::span(scratch_.keys_).first(size);
    while (range.size() > 1) {
      const auto half = range.begin() + std::ssize(range) / 2;
      std::nth_element(range.begin(), half, range.end(), std::greater());
      const std::span<const std::uint64_t> upper(range.begin(), half);
      std::uint64_t sum = held;
      for (const std::uint64_t key : upper) sum += units(~static_cast<std::uint32_t>(key));
      if (sum >= goal) {
        range = range.first(upper.size());
      } else {
        held = sum;
        range = range.subspan(upper.size());
      }
    }
    return range[0];
  }

  SamplingScratch& scratch_;
  std::span<const float> logits_;  // [V], as the model computed them
  std::span<const float> scores_;  // [n]
  std::span<double> probs_;        // [n]
  float peak_ = 0;
  std::size_t count_ = 0;  // of the tokens that are kept
};

// How many logits remain without those at the end that are minus infinity; at least 1.
std::size_t without_padding(std::span<const float> logits) {
  std::size_t n = logits.size();
  while (n > 1 && logits[n - 1] == -kInfinity) --n;
  return n;
}

void probabilities(std::span<const float> logits, std::span<const TokenId> history,
                   const SamplingOptions& options, SamplingScratch& scratch,
                   std::span<double> probs) {
  check_sampling_options(options);
  SPECDEC_CHECK(!logits.empty() && logits.size() == probs.size() &&
                    std::ssize(logits) <= scratch.vocab_size(),
                "{} logits and {} probabilities to be as many, and at most the scratch's {} tokens",
                logits.size(), probs.size(), scratch.vocab_size());
  const std::size_t n = without_padding(logits);
  std::ranges::fill(probs.subspan(n), 0.0);
  SamplingPipeline pipeline(scratch, logits, probs.first(n));
  pipeline.penalise(logits, history, options.repetition_penalty);
  pipeline.find_peak();
  if (options.temperature == 0) {
    pipeline.one_hot();
  } else if (options.top_p < 1 || (options.top_k > 0 && std::cmp_less(options.top_k, n))) {
    pipeline.filtered_softmax(options);
  } else {
    pipeline.softmax(options.temperature);
  }
}

TokenId sample(std::span<const double> probs, double u) {
  SPECDEC_CHECK(u >= 0 && u < 1, "a uniform of at least 0 and below 1, not {}", u);
  return cpu::first_above(u * total_of(probs), probs);
}

}  // namespace specdec
