#pragma once
#include <memory>
#include <span>
#include <vector>

#include "common/generation.h"
#include "common/speculation/round_judge.h"
#include "stages/05_rejection_sampling/judge.h"
#include "stages/08_token_trees/sibling_rules.h"

namespace specdec {

// [snippet greedy-tree-judge]
// Greedy decoding: at each node the text goes on with what the target says there, and the tree is
// followed as far as it has that token (Stratos, appendix A).
class GreedyTreeJudge final : public RoundJudge {
 public:
  // max_rows: of a tree and its root, where one call is to choose after all of them, since a device
  // answers one such call as fast as one for a row; 0: one after another, along the path.
  explicit GreedyTreeJudge(Backend& backend, int max_rows = 0)
      : backend_(backend), choices_(static_cast<std::size_t>(max_rows)) {}

  void judge(const Drafts& tree, DeviceRows logits, std::vector<TokenId>& context,
             Generation& generation, Round& round) override;

 private:
  TokenId choice(DeviceRows logits, int row) const;

  Backend& backend_;
  std::vector<TokenId> choices_;  // [max_rows]
};
// [end snippet greedy-tree-judge]

// Sampling: stage 5's judge, which walks along a tree by a rule for siblings.
class SamplingTreeJudge : public Judge {
 public:
  // options: as of stage 5's judge, but for the acceptance rule, which follows from `rule`.
  // scratch: for as many drafts as a tree has nodes. REQUIRES: backend, random and rule outlive
  // this object.
  SamplingTreeJudge(Backend& backend, RandomSource& random, const SpeculationOptions& options,
                    const NamedSiblingRule& rule, std::shared_ptr<JudgingScratch> scratch);

  void judge(const Drafts& tree, DeviceRows logits, std::vector<TokenId>& context,
             Generation& generation, Round& round) override;

 private:
  void judge_path(const Drafts& tree, DeviceRows logits, std::vector<TokenId>& context,
                  Generation& generation, Round& round);

  const NamedSiblingRule& rule_;
};

}  // namespace specdec
