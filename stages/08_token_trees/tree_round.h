#pragma once
#include <vector>

#include "common/generation.h"
#include "common/speculation/round_judge.h"
#include "stages/04_greedy_speculation/draft_and_verify.h"
#include "stages/06_batched_verification/batched_rounds.h"
#include "stages/08_token_trees/sibling_rules.h"

namespace specdec {

// One round with the parts of stage 4, whose drafts may branch: drafts a tree, verifies it in one
// pass, judges along one path, and keeps that path. REQUIRES: as for greedy_round().
Round tree_round(DraftAndVerify& steps, RoundJudge& judge, std::vector<TokenId>& context,
                 Generation& generation);

// The same for a batch: each request's tree is judged by the siblings' rule, not by the request's
// acceptance rule, and one path of it is kept. K of a request is the most levels of its trees.
// Nodes count as rows and as places in the caches; levels count against the contexts. REQUIRES: the
// rule outlives the result.
Judging judging_of_trees(const NamedSiblingRule& rule);

}  // namespace specdec
