#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json_value.h"
#include "stages/08_token_trees/best_shape.h"
#include "stages/08_token_trees/tree_judge.h"
#include "stages/08_token_trees/tree_shape.h"
#include "stages/programs/run/options.h"

namespace specdec {

// How often a target goes on with each rank of its draft's tokens, as counted in runs: what the
// best shape of a tree follows from. Kept in a file.
struct TreeProfile {
  struct Level {
    std::int64_t places = 0;             // that were tested, each with at least one draft
    std::vector<std::int64_t> accepted;  // [rank] places where the text went on with this draft
  };

  Json measured_for;  // the models and how drafts are judged; null: unknown
  std::vector<Level> levels = {};

  // Adds the places that the round tested. REQUIRES: after each node of a level, the tree has the
  // draft's likeliest tokens in order, and as many as after the others (top:3x2x1).
  void count(const Drafts& tree, const Round& round);

  // REQUIRES: a level.
  AcceptanceByRank acceptance() const;
};

// Which trial after its parent a node is: 0, 1, ...
std::size_t rank_of(const Drafts& tree, int node);

Json to_json(const TreeProfile& profile);

// REQUIRES: `name` stands for the file in messages. Throws Error, naming the field: no JSON, no
// profile, no level, more than 32 levels, a level with more tokens accepted than places, numbers
// that count nothing.
TreeProfile parse_tree_profile(std::string_view text, const std::string& name);

// The profile of --tree-profile; an empty one of this run's models where there is none. Notes on
// stderr that it was measured for something else, and throws Error where it is damaged or this run
// cannot be added to it (--write-tree-profile).
TreeProfile read_tree_profile(const RunOptions& options);

// The shape that --tree asks for, with that profile.
MakeTreeShape shape_of(const RunOptions& options, const TreeProfile& profile);

// Throws Error where nothing was counted.
void write_tree_profile(const TreeProfile& profile, const std::string& path);

}  // namespace specdec
