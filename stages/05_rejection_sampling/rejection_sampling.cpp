#include "stages/05_rejection_sampling/rejection_sampling.h"

namespace specdec {

// [snippet round]
Round RejectionSampling::round(std::vector<TokenId>& context, Generation& generation) {
  Round round = steps_.draft(context, judge_.drafting());
  steps_.verify(context);
  judge_.judge(steps_.drafts(), steps_.logits_rows(round.drafted + 1), context, generation, round);
  steps_.roll_back(round);
  return round;
}
// [end snippet round]

}  // namespace specdec
