#pragma once
#include <memory>

#include "stages/08_token_trees/tree_drafter.h"
#include "stages/programs/run/options.h"
#include "stages/programs/speculation/draft_setup.h"
#include "stages/programs/trees/tree_places.h"

namespace specdec {

// What a run's trees take at most; nothing where it does not speculate.
TreeRoom room_of_trees(const RunOptions& options, const MakeTreeShape& shape);

// What a drafter of trees takes memory for.
struct TreeDrafterRoom {
  int vocab_size = 0;   // of the trees' distributions
  int max_context = 0;  // tokens of the longest context, the levels among them
  int max_requests = 1;
};

// What drafts trees of the shape, by the draft's model or by lookup. REQUIRES: the draft outlives
// it, and where it is a model, its cache has room().nodes places for each request.
std::unique_ptr<TreeDrafter> make_tree_drafter(const RunOptions& options,
                                               const MakeTreeShape& shape, DraftSetup& draft,
                                               const TreePlaces& places,
                                               const TreeDrafterRoom& room);

}  // namespace specdec
