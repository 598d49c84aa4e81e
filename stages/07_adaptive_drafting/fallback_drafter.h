#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/speculation/drafter.h"
#include "stages/07_adaptive_drafting/sequence_pairs.h"

namespace specdec {

// Combines two drafters: the second one drafts for the requests for which the first has nothing.
// Prompt lookup is free and is right where the text repeats; a draft model has a guess everywhere.
//
// Each token carries the distribution that it was drawn from, so the judge need not know which
// drafter drew it. The text alone determines which one drafts.
class FallbackDrafter final : public Drafter {
 public:
  // max_requests: the most requests per call.
  FallbackDrafter(std::shared_ptr<Drafter> first, std::shared_ptr<Drafter> second,
                  int max_requests = 1);

  SequenceId create() override;
  void release(SequenceId sequence) override;
  void draft(std::span<const DraftRequest> requests) override;
  void prefill(std::span<const Segment> chunks) override;
  int uncached_before(SequenceId sequence, int end) const override;
  void truncate(SequenceId sequence, int length) override;
  void keep(SequenceId sequence, int length, std::span<const int> path) override;
  Capacity capacity(int spec_length) const override;
  // The second drafter's length, because the second is the one that may have to catch up.
  int length(SequenceId sequence) const override;
  int context_limit() const override;
  std::int64_t forwards() const override { return first_->forwards() + second_->forwards(); }

 private:
  std::shared_ptr<Drafter> first_, second_;
  SequencePairs pairs_;
  std::vector<DraftRequest> for_first_, for_second_;
  std::vector<bool> by_second_;  // by sequence: whether the second one drafted last
};

}  // namespace specdec
