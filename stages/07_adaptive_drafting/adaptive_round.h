#pragma once
#include <vector>

#include "common/generation.h"
#include "stages/04_greedy_speculation/draft_and_verify.h"
#include "stages/05_rejection_sampling/judge.h"
#include "stages/07_adaptive_drafting/note_likely.h"

namespace specdec {

// [snippet adaptive-round]
// Stage 5's round with a policy that chooses K. The policy's gate, if it has one, may end the
// drafts before K. If the drafter learns from the target, the likeliest tokens are noted for it.
inline Round adaptive_round(DraftAndVerify& steps, Judge& judge, std::vector<TokenId>& context,
                            Generation& generation) {
  Sampling drafting = judge.drafting();
  drafting.gate = steps.policy().gate();
  Round round = steps.draft(context, drafting);
  steps.verify(context);
  const DeviceRows logits = steps.logits_rows(round.drafted + 1);
  judge.judge(steps.drafts(), logits, context, generation, round);
  if (drafting.likely) note_likely(round, logits, steps.target().backend(), *drafting.likely);
  steps.roll_back(round);  // also tells the policy which drafts were accepted
  return round;
}
// [end snippet adaptive-round]

}  // namespace specdec
