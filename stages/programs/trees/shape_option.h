#pragma once
#include <string>

#include "stages/08_token_trees/best_shape.h"
#include "stages/08_token_trees/sibling_rules.h"
#include "stages/08_token_trees/tree_shape.h"
#include "stages/programs/run/options.h"

namespace specdec {

// Of best:N, without a profile: how often the embedded target goes on with the embedded draft's
// likeliest tokens, by level and rank (docs/experiments/trees.json).
AcceptanceByRank embedded_acceptance();

// What --tree asks for: chains:N, distinct:3x2x1, top:3x2x1, best:N, grow:N. spec_length: the most
// levels, where the shape itself does not say. acceptance: what best:N is best for. Throws Error
// for what is no shape, for one that needs more nodes than a pass may have rows, and for a best one
// without nodes.
MakeTreeShape tree_shape(const std::string& shape, int spec_length,
                         const AcceptanceByRank& acceptance = embedded_acceptance());

// The nodes that one pass of a tree may have.
inline constexpr int kMostNodes = 255;

// Throws Error where the options of stage 8 do not go together, saying which and what to do.
void check_tree_options(const RunOptions& options);

// The same for what each request of a batch has: its temperatures.
void check_drafts_differ(const RunOptions& options);

// What --siblings names, or --acceptance. Throws Error where they differ.
const NamedSiblingRule& sibling_rule_of(const RunOptions& options);

// Whether both models always take the likeliest token, as their logits have it.
bool is_greedy(const RunOptions& options);

}  // namespace specdec
