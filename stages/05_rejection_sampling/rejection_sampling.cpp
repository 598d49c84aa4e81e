#include "stages/05_rejection_sampling/rejection_sampling.h"

namespace specdec {

// [snippet round]
Round sampled_round(DraftAndVerify& steps, Judge& judge, std::vector<TokenId>& context,
                    Generation& generation) {
  Round round = steps.draft(context, judge.drafting());
  steps.verify(context);
  judge.judge(steps.drafts(), steps.logits_rows(round.drafted + 1), context, generation, round);
  steps.roll_back(round);
  return round;
}
// [end snippet round]

}  // namespace specdec
