#pragma once
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "stages/00_toy_speculation/enumeration.h"
#include "stages/05_rejection_sampling/rejection_sampling.h"
#include "stages/programs/run/request.h"
#include "stages/programs/sampling/speculation_options.h"
#include "tests/engine_fixture.h"

namespace specdec {

using toy::largest_difference;
using toy::Law;
using toy::Text;

// Stage 0's EveryPath for the real interface: each walk takes another path, until all were taken.
// Races are exempt: they have a draw for every token.
class EveryPath final : public RandomSource {
 public:
  TokenId token(std::span<const double> probs, int position, Purpose purpose,
                int index = 0) override {
    // A draft that nobody tested may be drawn again, in a later round, and so may all that a draft
    // of its own decided about it, by draws with an index. Nothing else may.
    if (purpose != Purpose::kDraft && index == 0) ask(position, purpose);
    double total = 0;
    for (const double prob : probs) total += prob;
    SPECDEC_CHECK(total > 0 && std::isfinite(total), "a positive and finite total, not {}", total);
    toy::Probs options(probs.begin(), probs.end());
    for (double& option : options) option /= total;
    return paths_.token(options, position, purpose);
  }
  bool accept(double probability, int position, int index = 0) override {
    SPECDEC_CHECK(probability >= 0, "a probability of at least 0, not {}", probability);
    if (index == 0) ask(position, Purpose::kAccept);
    return paths_.accept(std::min(1.0, probability), position);
  }
  TokenId race(std::span<const double>, int) override {
    SPECDEC_CHECK(false, "no races, which have too many paths");
    return 0;
  }

  double probability() const { return paths_.probability(); }  // of the walk since the last next()
  // Prepares the next walk. False when there is none.
  bool next() {
    asked_.clear();
    return paths_.next();
  }

 private:
  // A keyed draw gives the same number again to who asks for its name again (uniform.h), so one
  // walk may not ask twice.
  void ask(int position, Purpose purpose) {
    const std::pair name(position, purpose);
    SPECDEC_CHECK(std::ranges::find(asked_, name) == asked_.end(),
                  "the draw at position {} for purpose {} to decide one thing", position,
                  static_cast<int>(purpose));
    asked_.push_back(name);
  }

  toy::EveryPath paths_;
  std::vector<std::pair<int, Purpose>> asked_;
};

// A request without texts: ids in, ids out.
inline GenerationRequest request_of(Text prompt, int max_new_tokens, Text eos_ids = {}) {
  GenerationRequest request;
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
SpeculationRun speculate(DraftAndVerify& steps, RandomSource& random,
                         const SpeculationOptions& options, const GenerationRequest& request,
                         AfterRound&& after_round) {
  SpeculationRun run;
  Generation generation(request, nullptr);
  const auto judge = make_judge(steps, random, options);
  Text context = request.prompt;
  steps.prefill(context);
  while (!generation.finished()) {
    run.rounds.push_back(sampled_round(steps, *judge, context, generation));
    after_round(run.rounds.back(), steps, *judge);
  }
  run.tokens.assign(generation.tokens().begin(), generation.tokens().end());
  run.finish_reason = generation.finish_reason();
  return run;
}

inline SpeculationRun speculate(LanguageModel& target, Drafter& drafter, int spec_length,
                                RandomSource& random, const SpeculationOptions& options,
                                const GenerationRequest& request, int context_limit = 1 << 20) {
  DraftAndVerify steps(target, drafter, fixed_spec_length(spec_length), context_limit,
                       Drafts(spec_length, target.vocab_size()));
  return speculate(steps, random, options, request, [](auto&&...) {});
}

}  // namespace specdec
