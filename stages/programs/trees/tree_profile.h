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

// How often a target accepts each rank of its draft model's tokens, counted over runs. The best
// shape of a tree follows from it. Stored in a file.
struct TreeProfile {
  struct Level {
    std::int64_t places = 0;             // tested positions, each with at least one draft
    std::vector<std::int64_t> accepted;  // [rank] positions where this rank was accepted
  };

  Json measured_for;  // models, rule and sampling options; null: unknown
  std::vector<Level> levels = {};

  // Adds the positions that the round tested. REQUIRES: the children of each node are the draft
  // model's likeliest tokens, in order, and equally many for all nodes of a level (top:3x2x1).
  void count(const Drafts& tree, const Round& round);

  // The acceptance rates by level and rank. REQUIRES: at least one level.
  AcceptanceByRank acceptance() const;
};

// The rank of a node among the trials after its parent: 0, 1, ...
std::size_t rank_of(const Drafts& tree, int node);

Json to_json(const TreeProfile& profile);

// name: the name of the file in messages. Throws Error, naming the field, for text that is not
// JSON, another format, no level or more than 32, more tokens accepted than places on a level, and
// counts that are not whole numbers.
TreeProfile parse_tree_profile(std::string_view text, const std::string& name);

// Reads the file of --tree-profile; without that option, returns an empty profile for this run's
// models and options. If the file was measured for others, notes that on stderr, or throws Error if
// this run's counts would be added to it (--write-tree-profile). Throws Error if it is damaged.
TreeProfile read_tree_profile(const RunOptions& options);

// The shape that --tree names, with this profile; an empty profile means embedded_acceptance().
MakeTreeShape shape_of(const RunOptions& options, const TreeProfile& profile);

// Throws Error if nothing was counted, or if the file cannot be written.
void write_tree_profile(const TreeProfile& profile, const std::string& path);

}  // namespace specdec
