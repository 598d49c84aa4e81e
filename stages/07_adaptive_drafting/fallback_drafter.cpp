#include "stages/07_adaptive_drafting/fallback_drafter.h"

#include <algorithm>
#include <utility>

namespace specdec {

FallbackDrafter::FallbackDrafter(std::shared_ptr<Drafter> first, std::shared_ptr<Drafter> second,
                                 int max_requests)
    : first_(std::move(first)), second_(std::move(second)) {
  const auto n = static_cast<std::size_t>(max_requests);
  for_first_.reserve(n);
  for_second_.reserve(n);
}

SequenceId FallbackDrafter::create() {
  const SequenceId sequence = pairs_.create(*first_, *second_);
  if (std::ssize(by_second_) <= sequence) by_second_.resize(sequence + 1);
  return sequence;
}

void FallbackDrafter::release(SequenceId sequence) { pairs_.release(sequence, *first_, *second_); }

// [snippet fallback]
void FallbackDrafter::draft(std::span<const DraftRequest> requests) {
  for_first_.assign(requests.begin(), requests.end());
  for (DraftRequest& request : for_first_) request.sequence = pairs_[request.sequence].first;
  first_->draft(for_first_);
  for_second_.clear();
  for (const DraftRequest& request : requests) {
    by_second_[request.sequence] = request.drafts->size() == 0;
    if (!by_second_[request.sequence]) continue;
    for_second_.push_back(request);
    for_second_.back().sequence = pairs_[request.sequence].second;
  }
  if (!for_second_.empty()) second_->draft(for_second_);
}
// [end snippet fallback]

void FallbackDrafter::prefill(std::span<const Segment> chunks) {
  pairs_.prefill(chunks, &SequencePairs::Pair::first, *first_);
  pairs_.prefill(chunks, &SequencePairs::Pair::second, *second_);
}

int FallbackDrafter::uncached_before(SequenceId sequence, int end) const {
  return std::max(first_->uncached_before(pairs_[sequence].first, end),
                  second_->uncached_before(pairs_[sequence].second, end));
}

void FallbackDrafter::truncate(SequenceId sequence, int length) {
  first_->truncate(pairs_[sequence].first, length);
  second_->truncate(pairs_[sequence].second, length);
}

void FallbackDrafter::keep(SequenceId sequence, int length, std::span<const int> path) {
  if (by_second_[sequence]) {
    first_->truncate(pairs_[sequence].first, length);
    second_->keep(pairs_[sequence].second, length, path);
  } else {
    first_->keep(pairs_[sequence].first, length, path);
    second_->truncate(pairs_[sequence].second, length);
  }
}

Capacity FallbackDrafter::capacity(int spec_length) const {
  return larger(first_->capacity(spec_length), second_->capacity(spec_length));
}

int FallbackDrafter::length(SequenceId sequence) const {
  return second_->length(pairs_[sequence].second);
}

int FallbackDrafter::context_limit() const {
  return std::min(first_->context_limit(), second_->context_limit());
}

}  // namespace specdec
