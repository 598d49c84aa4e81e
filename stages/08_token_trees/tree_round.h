#pragma once
#include <vector>

#include "common/generation.h"
#include "common/speculation/round_judge.h"
#include "stages/04_greedy_speculation/draft_and_verify.h"

namespace specdec {

// One round with stage 4's parts, whose drafts may branch: a tree is drafted, verified in one pass,
// judged along one path, and that path is kept. REQUIRES: as greedy_round().
Round tree_round(DraftAndVerify& steps, RoundJudge& judge, std::vector<TokenId>& context,
                 Generation& generation);

}  // namespace specdec
