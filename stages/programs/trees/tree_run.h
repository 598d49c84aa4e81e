#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stages/08_token_trees/tree_judge.h"
#include "stages/programs/adaptive/adapt.h"
#include "stages/programs/trees/tree_profile.h"

namespace specdec {

// What makes a run one of trees, from the command line: their shape and rule, who drafts them, who
// judges them, and what is counted of them.
class TreeRun {
 public:
  // Throws Error for what is no shape, for options that do not go together, and as
  // with_base_kind().
  explicit TreeRun(const RunOptions& options);

  // Those of the command line, with K as many levels as the shape has.
  const RunOptions& options() const { return options_; }
  SpeculationOptions speculation() const;

  // Of one request.
  SessionParts parts();
  AdaptiveRun& adaptive() { return adaptive_; }
  std::unique_ptr<RoundJudge> make_judge(const Session& run, RandomSource& random) const;
  // For people to look at: what decided the last round.
  RoundEvidence evidence(const Session& run, const RoundJudge& judge);
  void count(const Session& run, const Round& round);
  Judgement judgement(const Session& run, RoundJudge& judge) const;
  // What the report says. REQUIRES: the rounds are over.
  ReportExtras extras(Session& run) const;
  void write_profile() const;  // --write-tree-profile

  // Of a batch: all requests have trees of one shape, judged by one rule. Refused like other bad
  // options: requests whose drafts would all be the same.
  static MakeBatchRequest make_request(AdaptiveBatch& adaptive);
  BatchParts batch_parts(const AdaptiveBatch& adaptive,
                         std::span<const BatchRequest> requests) const;
  void add_to(BatchSession& session) const;

 private:
  Drafting drafting(KeepProbs keep) const;
  KeepProbs keep() const;
  bool is_looked_at() const { return options_.explain || !options_.trace.empty(); }

  TreeProfile profile_;  // --tree-profile, and what the run counts for --write-tree-profile
  MakeTreeShape shape_;  // --tree
  RunOptions options_;
  const NamedSiblingRule& rule_;
  AdaptiveRun adaptive_;
  std::unique_ptr<GreedyEvidence> greedy_evidence_;
  std::int64_t nodes_ = 0, trials_ = 0, trials_tested_ = 0;
  std::vector<std::int64_t> accepted_by_rank_;
};

}  // namespace specdec
