#include "stages/08_token_trees/tree_round.h"

#include "stages/08_token_trees/keep_path.h"
#include "stages/08_token_trees/tree_judge.h"

namespace specdec {

// [snippet tree-round]
Round tree_round(DraftAndVerify& steps, RoundJudge& judge, std::vector<TokenId>& context,
                 Generation& generation) {
  Sampling drafting = judge.drafting();
  drafting.gate = steps.policy().gate();
  Round round = steps.draft(context, drafting);
  steps.verify(context);
  judge.judge(steps.drafts(), steps.logits_rows(steps.drafts().size() + 1), context, generation,
              round);
  keep_path(round, {steps.target(), steps.sequence(), steps.drafter(), steps.draft_sequence()});
  steps.policy().learn(round);
  return round;
}
// [end snippet tree-round]

Judging judging_of_trees(const NamedSiblingRule& rule) {
  const auto make_judge = [&rule](Backend& backend, RandomSource& random,
                                  const SpeculationOptions& options,
                                  const std::shared_ptr<JudgingScratch>& scratch) {
    return std::make_unique<SamplingTreeJudge>(backend, random, options, rule, scratch);
  };
  return {.make_judge = make_judge, .roll_back = keep_path};
}

}  // namespace specdec
