#include "stages/09_self_drafting/heads_model.h"

#include <limits>
#include <utility>

#include "common/base/check.h"
#include "kernels/int_size.h"

namespace specdec {

HeadsModel::HeadsModel(const LlamaModel& target, std::unique_ptr<Heads> heads, int token_limit,
                       int max_requests)
    : SelfModel(max_requests),
      target_(target),
      heads_(std::move(heads)),
      token_limit_(token_limit),
      max_requests_(max_requests),
      begun_(max_requests),
      last_(backend(), std::size_t(max_requests) * heads_->width()),
      made_(backend(), std::size_t(max_requests) * heads_->count() * heads_->width()),
      logits_(backend(), std::size_t(max_requests) * heads_->count() * vocab_size()) {
  SPECDEC_CHECK(heads_->width() == target.config().d_model, "heads as wide as the target");
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
  const DeviceRows logits = matrix(logits_, rows, vocab_size());
  heads_->compute(last, matrix(made_, rows, E));
  backend().matmul(matrix(made_, rows, E), target_.head(), logits);
  if (token_limit_ < vocab_size()) {
    backend().fill(logits.columns(token_limit_, vocab_size() - token_limit_),
                   -std::numeric_limits<float>::infinity());
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
