#pragma once
#include <span>
#include <vector>

#include "stages/08_token_trees/tree_shape.h"

namespace specdec {

// [snippet acceptance-by-rank]
// How often the target goes on with the draft's likeliest token, with its second likeliest, and so
// on, at each level of a tree: [level][rank], each row's sum at most 1. The last row serves all
// deeper levels.
using AcceptanceByRank = std::vector<std::vector<double>>;
// [end snippet acceptance-by-rank]

// What a tree of a plan is expected to accept, if `acceptance` describes every node's children: the
// sum over its nodes of the products along their paths.
double expected_accepted(const Likeliest::Plan& plan, const AcceptanceByRank& acceptance);

// The plan of at most `nodes` nodes and `levels` levels that is expected to accept most (Chen et
// al. 2024, Sequoia, section 4.1, whose recursion is this one with a table for each level). Among
// equals one with fewer nodes. REQUIRES: nodes >= 1, levels >= 1; acceptance has a row, and no row
// is empty or negative.
Likeliest::Plan best_plan(const AcceptanceByRank& acceptance, int nodes, int levels);

}  // namespace specdec
