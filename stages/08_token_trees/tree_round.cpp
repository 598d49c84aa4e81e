#include "stages/08_token_trees/tree_round.h"

#include "stages/08_token_trees/keep_path.h"

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

}  // namespace specdec
