#include "stages/09_self_drafting/heads_model.h"

#include <utility>

#include "common/base/check.h"
#include "kernels/int_size.h"

namespace specdec {

HeadsModel::HeadsModel(const LlamaModel& target, LoadedHeads heads, int token_limit,
                       int max_requests)
    : SelfModel(max_requests),
      target_(target),
      heads_(std::move(heads.heads)),
      says_(std::move(heads.says)),
      max_requests_(max_requests),
      begun_(max_requests),
      last_(backend(), std::size_t(max_requests) * heads_->width()),
      made_(backend(), std::size_t(max_requests) * heads_->count() * heads_->width()),
      logits_(backend(), std::size_t(max_requests) * heads_->count() * vocab_size()) {
  SPECDEC_CHECK(heads_->width() == target.config().d_model, "heads as wide as the target");
  SPECDEC_CHECK(says_.size() == 1 || int_size(says_) == heads_->count(), "one projection, or {}",
                heads_->count());
  for (const DraftHead& head : says_) projections_.emplace_back(target, head, token_limit);
}

// [snippet begin]
void HeadsModel::begin(std::span<const DraftRequest> requests) {
  n_requests_ = int_size(requests);
  SPECDEC_CHECK(rows_ != nullptr && n_requests_ <= max_requests_, "rows of up to {} requests",
                max_requests_);
  const int n = n_requests_, E = heads_->width();
  const DeviceRows last = matrix(last_, n, E);
  for (int i = 0; i < n; ++i) {
    const DraftRequest& r = requests[i];
    const auto cached = r.context.first(r.context.size() - 1);  // all but the pending token
    begun_[r.sequence] = {.place = i, .start = int_size(cached)};
    backend().copy(rows_->last(r.target_sequence, cached).data, last.row(i), E * sizeof(float));
  }
  const int rows = n * heads_->count();
  const DeviceRows made = matrix(made_, rows, E), logits = matrix(logits_, rows, vocab_size());
  heads_->compute(last, made);
  const int part = rows / int_size(projections_);  // all rows, or those of one head
  for (int i = 0; i < int_size(projections_); ++i) {
    projections_[i].project(made.slice(i * part, part), logits.slice(i * part, part));
  }
}
// [end snippet begin]

// [snippet which-head]
// What follows the pending token is the first head's.
void HeadsModel::say(SequenceId sequence, int position, float* to) {
  const auto [place, start] = begun_[sequence];
  const int head = position - start;
  SPECDEC_CHECK(0 <= head && head < heads_->count(), "head 0 to {}, not {}", heads_->count() - 1,
                head);
  const DeviceRows logits = matrix(logits_, heads_->count() * n_requests_, vocab_size());
  backend().copy(logits.row(head * n_requests_ + place), to, vocab_size() * sizeof(float));
}
// [end snippet which-head]

}  // namespace specdec
