#pragma once
#include <string>
#include <vector>

#include "stages/08_token_trees/best_shape.h"
#include "stages/08_token_trees/sibling_rules.h"
#include "stages/08_token_trees/tree_shape.h"
#include "stages/programs/run/options.h"

namespace specdec {

// The profile of best:N unless --tree-profile gives one: how often the embedded target accepts the
// embedded draft model's likeliest tokens, by level and rank (docs/experiments/trees.json).
AcceptanceByRank embedded_acceptance();

// The shape that --tree names: one of kTrees with its sizes. spec_length: the number of levels if
// the shape does not contain it. acceptance: the rates for which best:N is best. Throws Error for
// an unknown shape, for more than kMostNodes nodes, and if best:N has no node at these rates.
MakeTreeShape tree_shape(const std::string& shape, int spec_length,
                         const AcceptanceByRank& acceptance = embedded_acceptance());

// The shapes of what each --draft drafts. That of the tree, if there is one draft; otherwise its
// chains, dealt to the drafts in turn. REQUIRES: check_tree_options().
std::vector<MakeTreeShape> shapes_of_drafts(const RunOptions& options, const MakeTreeShape& tree);

// Whether it is one chain of drawn tokens, as stage 5 drafts it.
bool is_one_chain(const std::string& shape);

// The most nodes of a tree, because a pass has that many rows for them.
inline constexpr int kMostNodes = 255;

// Throws Error if the options of stage 8 contradict each other, saying which ones and what to do.
void check_tree_options(const RunOptions& options);

// The part of it that concerns a request's own --tree.
void check_tree(const RunOptions& options);

// Throws Error if a request's draft temperature makes all drafts of its trees equal.
void check_drafts_differ(const RunOptions& options);

// The list of rules in --help.
inline Listings tree_listings() { return {.siblings = choices_in(sibling_rules())}; }

// The rule that --siblings or --acceptance names. Throws Error if both are given and differ.
const NamedSiblingRule& sibling_rule_of(const RunOptions& options);

// Whether both models always choose the largest logit, without lenience or penalty.
bool is_greedy(const RunOptions& options);

}  // namespace specdec
