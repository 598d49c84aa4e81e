#pragma once
#include <functional>
#include <memory>

#include "stages/07_adaptive_drafting/adaptive_round.h"
#include "stages/07_adaptive_drafting/gated_sampler.h"
#include "tests/unit/stages/05_rejection_sampling/rejection_law.h"

// The law of stage 5's rounds with the drafters and policies of stage 7, along every path through
// drafting, gates, tests and corrections.
namespace specdec::law {

// Makes the drafter of one walk. below: a third model, for a draft of the draft.
using MakeDrafter =
    std::function<std::shared_ptr<Drafter>(LanguageModel& draft, LanguageModel& below)>;
using MakePolicy = std::function<std::unique_ptr<SpecLengthPolicy>()>;

inline std::shared_ptr<Drafter> gated_drafter(LanguageModel& model) {
  auto sampler = std::make_unique<GatedSampler>(model.backend(), model.vocab_size());
  return std::make_shared<ModelDrafter>(model, std::move(sampler), 64, 4);
}

inline std::shared_ptr<Drafter> plain_drafter(LanguageModel& model) {
  return std::make_shared<SamplingDrafter>(model, 64, 4);
}

// As AdaptiveRun::take_notes().
inline void take_notes(Judge& judge, const Text& prompt, int k) {
  if (k == 0) return;
  const auto first = static_cast<int>(prompt.size());
  judge.drafting().likely = std::make_shared<LikelyTokens>(k, first);
}

// The law, and averages over all walks.
struct DraftingLaw {
  Law law;
  double drafted = 0, accepted = 0;  // tokens per text, on average
};

// Random: the source of random numbers that enumerates the walks. begin(steps, random): returns the
// function that plays one round, (context, generation) -> Round.
template <typename Random, typename Begin>
DraftingLaw law_of_texts(const Scenario& scenario, const ContextTable& below,
                         const MakeDrafter& make_drafter, const MakePolicy& make_policy,
                         const Begin& begin) {
  TableModel target(scenario.target.vocab_size(), scenario.target.row_of());
  TableModel draft(scenario.draft.vocab_size(), scenario.draft.row_of());
  TableModel lowest(below.vocab_size(), below.row_of());
  const auto drafter = make_drafter(draft, lowest);
  const GenerationRequest request =
      request_of(scenario.prompt, scenario.new_tokens, scenario.eos_ids);
  Random random;
  DraftingLaw result;
  do {
    auto policy = make_policy();
    const Capacity capacity = drafter->capacity(policy->largest());
    DraftAndVerify steps(target, *drafter, std::move(policy), kNoLimit,
                         Drafts(capacity, target.vocab_size()));
    const auto play = begin(steps, random);
    Generation generation(request, nullptr);
    Text context = scenario.prompt;
    steps.prefill(context);
    double drafted = 0, accepted = 0;
    while (!generation.finished()) {
      const Round round = play(context, generation);
      drafted += round.drafted;
      accepted += round.accepted;
    }
    result.law[text_of(generation)] += random.probability();
    result.drafted += random.probability() * drafted;
    result.accepted += random.probability() * accepted;
  } while (random.next());
  return result;
}

// fill: the number of the target's likeliest tokens that are noted at each position.
template <typename Random = EveryPath>
DraftingLaw drafting_law(const Scenario& scenario, const ContextTable& below,
                         const MakeDrafter& make_drafter, const MakePolicy& make_policy,
                         int fill = 0) {
  return law_of_texts<Random>(
      scenario, below, make_drafter, make_policy, [&](DraftAndVerify& steps, Random& random) {
        const std::shared_ptr<Judge> judge = make_judge(steps, random, scenario.options);
        take_notes(*judge, scenario.prompt, fill);
        return [&steps, judge](Text& context, Generation& generation) {
          return adaptive_round(steps, *judge, context, generation);
        };
      });
}

}  // namespace specdec::law
