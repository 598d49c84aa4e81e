#pragma once
#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "common/speculation/sound_drafter.h"
#include "stages/08_token_trees/tree_drafter.h"

namespace specdec {

// A drafter of trees under damage control: a tree has the levels above the first one that would
// need a damaged row. Drafted again with fewer levels, these are the same.
class SoundTreeDrafter final : public TreeDrafter {
 public:
  SoundTreeDrafter(std::unique_ptr<TreeDrafter> drafter, DamageControl::Tell tell)
      : drafter_(std::move(drafter)), control_(std::move(tell)) {}

  SequenceId create() override { return drafter_->create(); }
  void release(SequenceId sequence) override { drafter_->release(sequence); }
  void draft(std::span<const TreeRequest> requests) override {
    control_.draft(*drafter_, requests, [this](const TreeRequest& request) {
      DamageControl::take_back(*drafter_, request);
      TreeRequest shorter = request;
      shorter.levels = std::min(request.levels - 1, request.tree->depth());
      draft(std::span(&shorter, 1));
    });
  }
  void keep(SequenceId sequence, std::span<const int> path) override {
    drafter_->keep(sequence, path);
  }
  void truncate(SequenceId sequence, int length) override { drafter_->truncate(sequence, length); }
  int length(SequenceId sequence) const override { return drafter_->length(sequence); }
  int context_limit() const override { return drafter_->context_limit(); }
  std::int64_t forwards() const override { return drafter_->forwards(); }
  TreeRoom room() const override { return drafter_->room(); }

 private:
  std::unique_ptr<TreeDrafter> drafter_;
  DamageControl control_;
};

}  // namespace specdec
