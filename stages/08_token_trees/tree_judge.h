#pragma once
#include <memory>
#include <span>
#include <vector>

#include "common/generation.h"
#include "common/speculation/round_judge.h"
#include "stages/05_rejection_sampling/judge.h"
#include "stages/08_token_trees/sibling_rules.h"

namespace specdec {

// Judges trees for greedy decoding: emits the target's choice after each node, and follows the tree
// as long as it contains that choice (Stratos, appendix A).
class GreedyTreeJudge final : public RoundJudge {
 public:
  // max_rows: the most nodes of a tree, plus the root. One call then takes the argmax of all rows,
  // which costs a device no more than the argmax of one. 0: one call per row of the path.
  explicit GreedyTreeJudge(Backend& backend, int max_rows = 0)
      : backend_(backend), choices_(max_rows) {}

  void judge(const Drafts& tree, DeviceRows logits, std::vector<TokenId>& context,
             Generation& generation, Round& round) override;

 private:
  TokenId choice(DeviceRows logits, int row) const;

  Backend& backend_;
  std::vector<TokenId> choices_;  // [max_rows]
};

// Stage 5's judge for trees: walks down a tree by a rule for siblings.
class SamplingTreeJudge : public Judge {
 public:
  // options: as for Judge, except that `rule` determines the acceptance rule. scratch: with room
  // for as many drafts as a tree has nodes. REQUIRES: backend, random and rule outlive this object.
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
