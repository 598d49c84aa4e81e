#pragma once
#include <memory>
#include <string>

#include "stages/08_token_trees/tree_drafter.h"
#include "stages/08_token_trees/tree_judge.h"

namespace specdec {

// Where a run's trees have their distributions, and so where they are drafted and judged.
struct TreePlaces {
  Backend* device = nullptr;  // null: in the host's memory
  std::string why_on_host;    // one clause, where the host judges
};

// target, draft: the models' backends; draft is null where no model drafts. looked_at: the host
// shows the distributions, as --explain and --trace do.
TreePlaces tree_places(Backend& target, Backend* draft, const NamedSiblingRule& rule,
                       bool looked_at);

// What both places need to know to draft and to judge.
struct TreeSizes {
  TreeRoom room;
  int vocab_size = 0;   // of the target
  int max_context = 0;  // tokens of the longest context, the levels among them
  int max_requests = 1;
};

// Null where the host drafts.
std::unique_ptr<TreeBrancher> make_tree_brancher(const TreePlaces& places, const TreeSizes& sizes);

// REQUIRES: target, random and rule outlive it.
std::unique_ptr<TreeJudge> make_tree_judge(const TreePlaces& places, Backend& target,
                                           RandomSource& random, const SamplingOptions& options,
                                           double draft_temperature, const NamedSiblingRule& rule,
                                           const TreeSizes& sizes);

// The same for greedy decoding, which needs no distributions: where the backend samples, one call
// chooses after all nodes.
std::unique_ptr<TreeJudge> make_greedy_tree_judge(Backend& target, const TreeSizes& sizes);

}  // namespace specdec
