#pragma once
#include <memory>

#include "stages/06_batched_verification/batched_rounds.h"
#include "stages/08_token_trees/keep_path.h"
#include "stages/08_token_trees/tree_judge.h"

namespace specdec {

// The rounds of a batch whose drafts are trees: each request's tree is judged by one siblings'
// rule, not by the request's acceptance rule, and one path of it is kept. K of a request is the
// most levels of its trees. Nodes count as rows and as places in the caches; levels count against
// the contexts.
class TreeBatchJudge : public BatchJudge {
 public:
  explicit TreeBatchJudge(const NamedSiblingRule& rule) : rule_(rule) {}  // which outlives it

  std::unique_ptr<Judge> make_judge(Backend& backend, RandomSource& random,
                                    const SpeculationOptions& options,
                                    JudgingScratch& scratch) const override {
    return std::make_unique<SamplingTreeJudge>(backend, random, options, rule_, scratch);
  }
  void roll_back(const Round& round, const RoundCaches& caches) const override {
    keep_path(round, caches);
  }

 protected:
  const NamedSiblingRule& rule_;
};

}  // namespace specdec
