#pragma once
#include <memory>
#include <span>
#include <utility>
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
  // scratch: for as many drafts as a tree has nodes. REQUIRES: all but the options outlive this
  // object.
  SamplingTreeJudge(Backend& backend, RandomSource& random, const SpeculationOptions& options,
                    const NamedSiblingRule& rule, JudgingScratch& scratch);
  // With memory of its own, for trees of that many nodes.
  SamplingTreeJudge(Backend& backend, RandomSource& random, const SpeculationOptions& options,
                    const NamedSiblingRule& rule, int nodes, int vocab_size)
      : SamplingTreeJudge(std::make_unique<JudgingScratch>(nodes, vocab_size), backend, random,
                          options, rule) {}

  void judge(const Drafts& tree, DeviceRows logits, std::vector<TokenId>& context,
             Generation& generation, Round& round) override;

  const NamedSiblingRule& rule() const { return rule_; }

 private:
  SamplingTreeJudge(std::unique_ptr<JudgingScratch> scratch, Backend& backend, RandomSource& random,
                    const SpeculationOptions& options, const NamedSiblingRule& rule)
      : SamplingTreeJudge(backend, random, options, rule, *scratch) {
    own_scratch_ = std::move(scratch);
  }
  void judge_path(const Drafts& tree, DeviceRows logits, std::vector<TokenId>& context,
                  Generation& generation, Round& round);

  const NamedSiblingRule& rule_;
  std::unique_ptr<JudgingScratch> own_scratch_;
};

}  // namespace specdec
