#include "stages/07_adaptive_drafting/fallback_drafter.h"

#include <algorithm>
#include <utility>

namespace specdec {

FallbackDrafter::FallbackDrafter(std::shared_ptr<Drafter> first, std::shared_ptr<Drafter> second,
                                 int max_requests)
    : first_(std::move(first)), second_(std::move(second)) {
  const auto n = static_cast<std::size_t>(max_requests);
  pairs_.reserve(n);
  free_.reserve(n);
  for_first_.reserve(n);
  for_second_.reserve(n);
}

SequenceId FallbackDrafter::create() {
  if (free_.empty()) {
    free_.push_back(static_cast<SequenceId>(pairs_.size()));
    pairs_.emplace_back();
  }
  const SequenceId sequence = free_.back();
  const SequenceId first = first_->create();
  pairs_[static_cast<std::size_t>(sequence)] = {first, second_->create()};
  free_.pop_back();
  return sequence;
}

void FallbackDrafter::release(SequenceId sequence) {
  first_->release(pair(sequence).first);
  second_->release(pair(sequence).second);
  free_.push_back(sequence);
}

// [snippet fallback]
void FallbackDrafter::draft(std::span<const DraftRequest> requests) {
  for_first_.assign(requests.begin(), requests.end());
  for (DraftRequest& request : for_first_) request.sequence = pair(request.sequence).first;
  first_->draft(for_first_);
  for_second_.clear();
  for (const DraftRequest& request : requests) {
    if (request.drafts->size() > 0) continue;
    for_second_.push_back(request);
    for_second_.back().sequence = pair(request.sequence).second;
  }
  if (!for_second_.empty()) second_->draft(for_second_);
}
// [end snippet fallback]

void FallbackDrafter::truncate(SequenceId sequence, int length) {
  first_->truncate(pair(sequence).first, length);
  second_->truncate(pair(sequence).second, length);
}

int FallbackDrafter::length(SequenceId sequence) const {
  return second_->length(pair(sequence).second);
}

int FallbackDrafter::context_limit() const {
  return std::min(first_->context_limit(), second_->context_limit());
}

}  // namespace specdec
