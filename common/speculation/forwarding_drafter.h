#pragma once
#include "common/speculation/drafter.h"

namespace specdec {

// Forwards every call to another drafter: the base of classes that watch or change what it drafts.
// REQUIRES: the other drafter outlives this object.
class ForwardingDrafter : public Drafter {
 public:
  explicit ForwardingDrafter(Drafter& drafter) : drafter_(drafter) {}

  SequenceId create() override { return drafter_.create(); }
  void release(SequenceId sequence) override { drafter_.release(sequence); }
  void draft(std::span<const DraftRequest> requests) override { drafter_.draft(requests); }
  void truncate(SequenceId sequence, int length) override { drafter_.truncate(sequence, length); }
  int length(SequenceId sequence) const override { return drafter_.length(sequence); }
  int context_limit() const override { return drafter_.context_limit(); }
  std::int64_t forwards() const override { return drafter_.forwards(); }
  void prefill(std::span<const Segment> chunks) override { drafter_.prefill(chunks); }
  int uncached_before(SequenceId sequence, int end) const override {
    return drafter_.uncached_before(sequence, end);
  }
  Capacity capacity(int spec_length) const override { return drafter_.capacity(spec_length); }
  void keep(SequenceId sequence, int length, std::span<const int> path) override {
    drafter_.keep(sequence, length, path);
  }

 private:
  Drafter& drafter_;
};

}  // namespace specdec
