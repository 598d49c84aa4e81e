#pragma once
#include <vector>

#include "common/generation.h"
#include "common/speculation/round_judge.h"
#include "stages/04_greedy_speculation/draft_and_verify.h"

namespace specdec {

// One round with the parts of stage 4, whose drafts may branch: drafts a tree, verifies it in one
// pass, judges along one path, and keeps that path. REQUIRES: as for greedy_round().
Round tree_round(DraftAndVerify& steps, RoundJudge& judge, std::vector<TokenId>& context,
                 Generation& generation);

}  // namespace specdec
