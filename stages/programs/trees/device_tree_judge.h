#pragma once
#include <memory>
#include <span>
#include <vector>

#include "stages/08_token_trees/tree_judge.h"

namespace specdec {

// Stage 8's SamplingTreeJudge where the distributions are in a GPU's memory: the same decisions,
// made there. A round is one upload and one download, neither of them as wide as the vocabulary.
class DeviceTreeJudge final : public SamplingTreeJudge {
 public:
  // capacity: of a round; max_context: tokens of the longest context. The rest is as for
  // SamplingTreeJudge. REQUIRES: the backend samples; trees are on it; the rule is one that a GPU
  // knows; random throws a seed's dice.
  DeviceTreeJudge(Backend& backend, RandomSource& random, const SpeculationOptions& options,
                  const NamedSiblingRule& rule, const Capacity& capacity, int vocab_size,
                  int max_context);

  void judge(const Drafts& tree, DeviceRows logits, std::vector<TokenId>& context,
             Generation& generation, Round& round) override;

 private:
  std::unique_ptr<Sampler> sampler_;
  std::vector<DraftedNode> nodes_;
  std::vector<DraftedTrial> trials_;
  std::vector<TestedPlace> places_;  // [levels]
};

// What a Sampler is told of a tree whose nodes' logits are these. nodes, trials: get its lists,
// which the result refers to. REQUIRES: the tree is on a device; the device knows the rule; random
// throws a seed's dice.
DraftedTree drafted_tree(const Judge& judge, const NamedSiblingRule& rule, const Drafts& tree,
                         DeviceRows logits, std::span<const TokenId> context,
                         std::vector<DraftedNode>& nodes, std::vector<DraftedTrial>& trials);

// What SamplingTreeJudge::judge() emits and writes into the round, by a Sampler's verdict.
void emit(const TreeVerdict& verdict, std::span<const TestedPlace> places, const Drafts& tree,
          std::vector<TokenId>& context, Generation& generation, Round& round);

}  // namespace specdec
