#pragma once
#include <memory>
#include <string>
#include <vector>

#include "stages/08_token_trees/batched_trees.h"
#include "stages/programs/batch/batch_session.h"
#include "stages/programs/run/options.h"
#include "stages/programs/trees/tree_places.h"

namespace specdec {

// What makes a batch's rounds those of trees, from the command line. All requests have trees of one
// shape, judged by one rule.
class TreeBatch {
 public:
  // Throws Error for what is no shape. REQUIRES: the options outlive this object.
  explicit TreeBatch(const RunOptions& options);

  // The requests that the options ask for, as queue_requests(): the K of each is the levels of a
  // tree. Refused like other bad options: drafts that would all be the same.
  std::vector<QueuedRequest> queue(const ModelFiles& target) const;

  // REQUIRES: this object outlives the session.
  BatchParts parts() const;

  // What the reports say about the trees. REQUIRES: the session's rounds are over.
  void add_trees(BatchSession& session) const;

 private:
  RoundSizes round_sizes(int spec_length) const;
  TreePlaces places_of(BatchSession& session) const;
  std::unique_ptr<Rounds> make_rounds(BatchSession& session) const;

  const RunOptions& options_;
  MakeTreeShape shape_;
};

}  // namespace specdec
