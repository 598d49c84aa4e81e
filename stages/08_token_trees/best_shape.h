#pragma once
#include <span>
#include <vector>

#include "stages/08_token_trees/tree_shape.h"

namespace specdec {

// How often the target accepts the draft model's likeliest token, its second likeliest, and so on,
// at each level of a tree: [level][rank]. The sum of a row is at most 1. The last row also serves
// all deeper levels.
using AcceptanceByRank = std::vector<std::vector<double>>;

// The expected number of accepted tokens of a tree with this plan, if `acceptance` holds after each
// node: the sum over all nodes of the product of the probabilities along the node's path.
double expected_accepted(const Likeliest::Plan& plan, const AcceptanceByRank& acceptance);

// The plan of at most `nodes` nodes and `levels` levels with the largest expected_accepted() (Chen
// et al. 2024, Sequoia, section 4.1; our recursion is theirs with a table for each level). Among
// equals, one with fewer nodes. REQUIRES: nodes >= 1, levels >= 1; acceptance has a row, and no row
// is empty or contains a negative number.
Likeliest::Plan best_plan(const AcceptanceByRank& acceptance, int nodes, int levels);

}  // namespace specdec
