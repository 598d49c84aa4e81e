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

// The same for a batch: judges each request's tree by the rule for siblings, not by the request's
// acceptance rule, and keeps one path. K of a request is the number of levels of its trees. Nodes
// need rows and places in the caches; levels count against the contexts. REQUIRES: the rule
// outlives the result.
Judging judging_of_trees(const NamedSiblingRule& rule);

}  // namespace specdec
