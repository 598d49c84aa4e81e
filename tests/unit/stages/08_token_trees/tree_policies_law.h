#pragma once
#include "tests/unit/stages/07_adaptive_drafting/drafting_law.h"
#include "tests/unit/stages/08_token_trees/tree_law.h"

namespace specdec::law {

// Every path of a text; a policy goes on from round to round.
inline DraftingLaw policy_law(const Scenario& scenario, const ContextTable& below,
                              const MakeDrafter& make_drafter, const MakePolicy& make_policy,
                              const NamedSiblingRule& rule) {
  return law_of_texts<EveryPath>(
      scenario, below, make_drafter, make_policy, [&](DraftAndVerify& steps, EveryPath& random) {
        const auto judge = std::make_shared<SamplingTreeJudge>(
            steps.target().backend(), random, scenario.options, rule,
            std::make_shared<JudgingScratch>(steps.drafts().capacity().verified, steps.V()));
        return [&steps, judge](Text& context, Generation& generation) {
          return tree_round(steps, *judge, context, generation);
        };
      });
}

}  // namespace specdec::law
