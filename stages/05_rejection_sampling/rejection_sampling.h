#pragma once
#include <vector>

#include "stages/04_greedy_speculation/draft_and_verify.h"
#include "stages/05_rejection_sampling/judge.h"

namespace specdec {

// Speculative decoding for a target that samples: stage 4's rounds with another judge. At
// temperature 0 it is greedy_round(), round for round.
class RejectionSampling {
 public:
  // Works on the parts of a round that `steps` has, which keep the drafts' distributions.
  // REQUIRES: all arguments outlive this object.
  RejectionSampling(DraftAndVerify& steps, Judge& judge) : steps_(steps), judge_(judge) {}

  // One round, as greedy_round(). Throws Error as Judge::judge().
  Round round(std::vector<TokenId>& context, Generation& generation);

 private:
  DraftAndVerify& steps_;
  Judge& judge_;
};

}  // namespace specdec
