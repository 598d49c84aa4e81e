#pragma once
#include <memory>
#include <span>
#include <vector>

#include "stages/08_token_trees/batched_trees.h"
#include "stages/programs/trees/tree_places.h"

namespace specdec {

// Judges the trees of a step on a GPU: one verdict for all requests, then each emits its own
// tokens. The decisions are those of the requests' own judges.
class DeviceBatchTreeJudge final : public BatchTreeJudge {
 public:
  // REQUIRES: the backend samples, knows the rule, and outlives this object, as the rule does.
  DeviceBatchTreeJudge(Backend& backend, const NamedSiblingRule& rule, const TreeSizes& sizes);

  Backend* memory() const override { return &backend_; }
  void judge(std::span<const TreeToJudge> trees) override;

 private:
  // What a tree is told by.
  struct Lists {
    std::vector<DraftedNode> nodes;
    std::vector<DraftedTrial> trials;
  };

  std::size_t levels_;  // of the largest tree
  std::unique_ptr<Sampler> sampler_;
  std::vector<Lists> lists_;           // [max_requests]
  std::vector<DraftedTree> drafted_;   // what the GPU is to judge, and what it says
  std::vector<TreeVerdict> verdicts_;  // [max_requests]
  std::vector<TestedPlace> places_;    // [max_requests, levels]
};

}  // namespace specdec
