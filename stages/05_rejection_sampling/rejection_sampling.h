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
  // REQUIRES: steps and chance outlive this object. Throws Error for options out of range.
  RejectionSampling(DraftAndVerify& steps, Chance& chance, const SpeculationOptions& options)
      : steps_(steps),
        scratch_(steps.target().backend(), steps.spec_length(), steps.V(), 1,
                 steps.target().max_seq_len()),
        judge_(steps.target().backend(), chance, options, scratch_) {}

  // One round, as greedy_round(). Throws Error as Judge::judge().
  Round round(std::vector<TokenId>& context, Generation& generation);

  Judge& judge() { return judge_; }
  const Judge& judge() const { return judge_; }

 private:
  DraftAndVerify& steps_;
  JudgingScratch scratch_;
  Judge judge_;
};

}  // namespace specdec
