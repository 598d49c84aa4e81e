#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/speculation/drafter.h"
#include "stages/07_adaptive_drafting/sequence_pairs.h"

namespace specdec {

// Two drafters: the second one drafts for those requests for which the first has nothing. A lookup
// costs nothing and is right where the text repeats; a model knows something everywhere.
//
// Each token carries what it was drawn from, whoever drew it, so nothing changes for the judge. Who
// drafts depends on the text alone.
class FallbackDrafter final : public Drafter {
 public:
  // max_requests: the most requests of one call.
  FallbackDrafter(std::shared_ptr<Drafter> first, std::shared_ptr<Drafter> second,
                  int max_requests = 1);

  SequenceId create() override;
  void release(SequenceId sequence) override;
  void draft(std::span<const DraftRequest> requests) override;
  void truncate(SequenceId sequence, int length) override;
  void keep(SequenceId sequence, int length, std::span<const int> path) override;
  Capacity capacity(int spec_length) const override;
  // What the second has: it is the one that may have to catch up.
  int length(SequenceId sequence) const override;
  int context_limit() const override;
  std::int64_t forwards() const override { return first_->forwards() + second_->forwards(); }

 private:
  std::shared_ptr<Drafter> first_, second_;
  SequencePairs pairs_;
  std::vector<DraftRequest> for_first_, for_second_;
  std::vector<bool> by_second_;  // by sequence: which of the two drafted last
};

}  // namespace specdec
