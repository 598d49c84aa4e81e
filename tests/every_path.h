#pragma once
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "stages/05_rejection_sampling/rejection_sampling.h"
#include "tests/engine_fixture.h"

namespace specdec {

// Chance as a proof has it (stage 0's EveryPath for the real interface): each walk takes another
// path, until all were taken. Races are exempt: they have a draw for every token.
class EveryPath final : public Chance {
 public:
  TokenId token(std::span<const double> probs, int position, Purpose purpose) override {
    // A draft that nobody tested may be drawn again, in a later round. Nothing else may.
    if (purpose != Purpose::kDraft) ask(position, purpose);
    return choose(probs);
  }
  bool accept(double probability, int position) override {
    SPECDEC_CHECK(probability >= 0, "the probability {} is at least 0", probability);
    ask(position, Purpose::kAccept);
    const double likely = std::min(1.0, probability);
    const double options[] = {likely, 1 - likely};
    return choose(options) == 0;
  }
  TokenId race(std::span<const double>, int) override {
    SPECDEC_CHECK(false, "races have too many paths");
    return 0;
  }

  // Of the walk since the last next(): the product over its forks.
  double probability() const {
    double product = 1;
    for (const Fork& fork : forks_) product *= fork.options[fork.taken];
    return product;
  }

  // Prepares the next walk: at the last fork that has an option left, that option. False when there
  // is none.
  bool next() {
    depth_ = 0;
    asked_.clear();
    for (; !forks_.empty(); forks_.pop_back()) {
      Fork& last = forks_.back();
      last.taken = possible(last.options, last.taken + 1);
      if (last.taken < last.options.size()) return true;
    }
    return false;
  }

 private:
  struct Fork {
    std::vector<double> options;  // the probability of each
    std::size_t taken;
  };

  // A keyed draw gives the same number again to who asks for its name again (uniform.h), so one
  // walk may not ask twice.
  void ask(int position, Purpose purpose) {
    const std::pair name(position, purpose);
    SPECDEC_CHECK(std::ranges::find(asked_, name) == asked_.end(),
                  "the draw at position {} for purpose {} decides one thing", position,
                  static_cast<int>(purpose));
    asked_.push_back(name);
  }

  static std::size_t possible(const std::vector<double>& options, std::size_t begin) {
    while (begin < options.size() && !(options[begin] > 0)) begin++;
    return begin;
  }

  TokenId choose(std::span<const double> weights) {
    if (depth_ == forks_.size()) {
      double total = 0;
      for (const double weight : weights) total += weight;
      SPECDEC_CHECK(total > 0 && std::isfinite(total), "the total {} can be drawn from", total);
      Fork fork{{weights.begin(), weights.end()}, 0};
      for (double& option : fork.options) option /= total;
      fork.taken = possible(fork.options, 0);
      forks_.push_back(std::move(fork));
    }
    return static_cast<TokenId>(forks_[depth_++].taken);
  }

  std::vector<Fork> forks_;  // of this walk, from its begin on
  std::size_t depth_ = 0;    // how many of them the walk has passed
  std::vector<std::pair<int, Purpose>> asked_;
};

using Text = std::vector<TokenId>;
using Law = std::map<Text, double>;  // the probability of each text that can occur

// The largest |a - b| of a text's probabilities, over all texts of either; infinite where one of
// them is no finite number.
inline double largest_difference(const Law& a, const Law& b) {
  Law difference = a;
  for (const auto& [text, probability] : b) difference[text] -= probability;
  double largest = 0;
  for (const auto& [text, value] : difference) {
    if (!std::isfinite(value)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

// A request without texts: ids in, ids out.
inline Request request_of(Text prompt, int max_new_tokens, Text eos_ids = {}) {
  Request request{Checkpoint(golden_model("draft"))};
  request.prompt = std::move(prompt);
  request.max_new_tokens = max_new_tokens;
  request.eos_ids = std::move(eos_ids);
  return request;
}

// What a run emitted, and its rounds.
struct SpeculationRun {
  Text tokens;
  FinishReason finish_reason = FinishReason::kLength;
  std::vector<Round> rounds;
};

// The decode loop of stage 5. Calls after_round(round, steps, sampling) after each round.
template <typename AfterRound>
SpeculationRun speculate(DraftAndVerify& steps, Chance& chance, const SpeculationOptions& options,
                         const Request& request, AfterRound&& after_round) {
  SpeculationRun run;
  Generation generation(request);
  RejectionSampling sampling(steps, chance, options);
  Text context = request.prompt;
  steps.prefill(context);
  while (!generation.finished()) {
    run.rounds.push_back(sampling.round(context, generation));
    after_round(run.rounds.back(), steps, sampling);
  }
  run.tokens.assign(generation.tokens().begin(), generation.tokens().end());
  run.finish_reason = generation.finish_reason();
  return run;
}

inline SpeculationRun speculate(LanguageModel& target, Drafter& drafter, int spec_length,
                                Chance& chance, const SpeculationOptions& options,
                                const Request& request, int context_limit = 1 << 20) {
  DraftAndVerify steps(target, drafter, spec_length, context_limit, true);
  return speculate(steps, chance, options, request, [](auto&&...) {});
}

}  // namespace specdec
