#pragma once
#include <memory>
#include <span>
#include <vector>

#include "stages/08_token_trees/tree_judge.h"

namespace specdec {

// Stage 8's SamplingTreeJudge where the distributions are in a GPU's memory: the same decisions,
// made there. A round is one upload and one download, neither of them as wide as the vocabulary.
class DeviceTreeJudge final : public TreeJudge {
 public:
  // room: of a tree; max_context: tokens of the longest context. The rest is as for
  // SamplingTreeJudge. REQUIRES: the backend samples; trees are on it; the rule is one that a GPU
  // knows; random throws a seed's dice.
  DeviceTreeJudge(Backend& backend, RandomSource& random, const SamplingOptions& options,
                  double draft_temperature, const NamedSiblingRule& rule, const TreeRoom& room,
                  int vocab_size, int max_context);

  void judge(const TokenTree& tree, DeviceRows logits, std::vector<TokenId>& context,
             Generation& generation, TreeRound& round) override;
  bool looks_behind_rejection() const override { return rule_.rule == nullptr; }

 private:
  RandomSource& random_;
  SamplingOptions options_;
  const NamedSiblingRule& rule_;
  std::unique_ptr<Sampler> sampler_;
  std::vector<DraftedNode> nodes_;
  std::vector<DraftedTrial> trials_;
  std::vector<TestedPlace> places_;  // [levels]
};

// What a Sampler is told of a tree whose nodes' logits are these. nodes, trials: get its lists,
// which the result refers to. REQUIRES: the tree is on a device; the device knows the rule; random
// throws a seed's dice.
DraftedTree drafted_tree(const TokenTree& tree, DeviceRows logits, const SamplingOptions& options,
                         const NamedSiblingRule& rule, RandomSource& random,
                         std::span<const TokenId> context, std::vector<DraftedNode>& nodes,
                         std::vector<DraftedTrial>& trials);

// What SamplingTreeJudge::judge() emits and writes into the round, by a Sampler's verdict.
void emit(const TreeVerdict& verdict, std::span<const TestedPlace> places, const TokenTree& tree,
          std::vector<TokenId>& context, Generation& generation, TreeRound& round);

}  // namespace specdec
