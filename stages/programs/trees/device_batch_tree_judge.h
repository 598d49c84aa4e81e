#pragma once
#include <memory>
#include <span>
#include <vector>

#include "stages/08_token_trees/tree_batch_judge.h"

namespace specdec {

// What judges the trees of a batch takes memory for.
struct TreeBatchSizes {
  Capacity capacity;    // of a round
  int vocab_size = 0;   // of the target
  int max_context = 0;  // tokens of the longest context, the levels among them
  int max_requests = 1;
};

// Judges the trees of a step on a GPU: one verdict for all requests, then each emits its own
// tokens. The decisions are those of the requests' own judges.
class DeviceBatchTreeJudge final : public TreeBatchJudge {
 public:
  // REQUIRES: the backend samples, knows the rule, and outlives this object, as the rule does.
  DeviceBatchTreeJudge(Backend& backend, const NamedSiblingRule& rule, const TreeBatchSizes& sizes);

  Backend* memory() const override { return &backend_; }
  void judge(std::span<const RoundToJudge> rounds) override;

 private:
  // What a tree is told by.
  struct Lists {
    std::vector<DraftedNode> nodes;
    std::vector<DraftedTrial> trials;
  };

  Backend& backend_;
  std::size_t levels_;  // of the largest tree
  std::unique_ptr<Sampler> sampler_;
  std::vector<Lists> lists_;           // [max_requests]
  std::vector<DraftedTree> drafted_;   // what the GPU is to judge, and what it says
  std::vector<TreeVerdict> verdicts_;  // [max_requests]
  std::vector<TestedPlace> places_;    // [max_requests, levels]
};

}  // namespace specdec
