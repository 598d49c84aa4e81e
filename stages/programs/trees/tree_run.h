#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stages/08_token_trees/tree_judge.h"
#include "stages/programs/adaptive/adapt.h"
#include "stages/programs/trees/tree_profile.h"

namespace specdec {

// Sets up runs with token trees from the command line: shape, rule for siblings, drafter, judge and
// counters.
class TreeRun {
 public:
  // Throws Error for an unknown shape, for options that contradict each other, and as
  // with_base_kind().
  explicit TreeRun(const RunOptions& options);

  // The options of the command line, with K set to the number of the shape's levels.
  const RunOptions& options() const { return options_; }
  SpeculationOptions speculation() const;

  // ---- For a run of one request
  SessionParts parts();
  AdaptiveRun& adaptive() { return adaptive_; }
  std::unique_ptr<RoundJudge> make_judge(const Session& run, RandomSource& random) const;
  // The inputs of the last round's decisions, for --explain and --trace.
  RoundEvidence evidence(const Session& run, const RoundJudge& judge);
  void count(const Session& run, const Round& round);
  Judgement judgement(const Session& run, RoundJudge& judge) const;
  // Additions to the report. REQUIRES: all rounds are done.
  ReportExtras extras(Session& run) const;
  void write_profile() const;  // --write-tree-profile

  // ---- For a batch, whose trees all have the same rule. A request may have a shape of its own
  // that needs no more memory than --tree. Requests whose drafts would all be equal are refused,
  // like requests with other bad options.

  // Serves the batch of the command line, or --serve. adjust: changes its parts. Returns the exit
  // code.
  int serve_batch(const std::function<BatchParts(BatchParts)>& adjust = std::identity()) const;

 private:
  int serve_socket(const std::function<BatchParts(BatchParts)>& adjust) const;
  MakeBatchRequest make_request() const;
  MakeTreeShape shape_of_request(const RunOptions& options) const;
  BatchParts batch_parts(AdaptiveBatch& adaptive, std::span<const BatchRequest> requests) const;
  void add_to(BatchSession& session) const;
  Drafting drafting(KeepProbs keep) const { return drafting(keep, shapes_.front()); }
  Drafting drafting(KeepProbs keep, const MakeTreeShape& shape) const;
  RoundCapacity capacity() const;
  ComposeDrafter beside() const;
  KeepProbs keep() const;
  bool is_looked_at() const { return options_.explain || !options_.trace.empty(); }

  TreeProfile profile_;  // --tree-profile, and what the run counts for --write-tree-profile
  MakeTreeShape shape_;  // --tree
  RunOptions options_;
  std::vector<MakeTreeShape> shapes_;  // of each --draft
  const NamedSiblingRule& rule_;
  AdaptiveRun adaptive_;
  std::unique_ptr<GreedyEvidence> greedy_evidence_;
  std::int64_t nodes_ = 0, trials_ = 0, trials_tested_ = 0;
  std::vector<std::int64_t> accepted_by_rank_;
};

}  // namespace specdec
