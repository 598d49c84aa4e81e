#pragma once
#include <vector>

#include "stages/04_greedy_speculation/draft_and_verify.h"
#include "stages/05_rejection_sampling/judge.h"

namespace specdec {

// One round of speculative decoding for a target that samples: stage 4's, with another judge. At
// temperature 0 it is greedy_round(), round for round. REQUIRES: as there; the drafts of `steps`
// keep their distributions. Throws Error as Judge::judge().
Round sampled_round(DraftAndVerify& steps, Judge& judge, std::vector<TokenId>& context,
                    Generation& generation);

}  // namespace specdec
