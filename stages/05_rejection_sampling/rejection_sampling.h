#pragma once
#include <vector>

#include "stages/04_greedy_speculation/draft_and_verify.h"
#include "stages/05_rejection_sampling/judge.h"

namespace specdec {

// Runs one round of speculative decoding for a target that samples: as in stage 4, with another
// judge. At temperature 0, it does what greedy_round() does. REQUIRES: as for greedy_round(); the
// drafts of `steps` keep their distributions. Throws BadLogits as Judge::judge().
Round sampled_round(DraftAndVerify& steps, Judge& judge, std::vector<TokenId>& context,
                    Generation& generation);

}  // namespace specdec
