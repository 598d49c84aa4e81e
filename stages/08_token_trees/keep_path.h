#pragma once
#include <vector>

#include "common/language_model.h"
#include "stages/08_token_trees/tree_drafter.h"
#include "stages/08_token_trees/tree_judge.h"

namespace specdec {

// Both caches of a request.
struct TreeCaches {
  LanguageModel& target;
  SequenceId sequence = 0;  // of the target
  TreeDrafter& drafter;
  SequenceId draft_sequence = 0;  // of the drafter
};

// Ends a round: both caches keep the path that was accepted, and no other node. kept: working
// memory.
void keep_path(const TreeRound& round, const TreeCaches& caches, std::vector<int>& kept);

}  // namespace specdec
