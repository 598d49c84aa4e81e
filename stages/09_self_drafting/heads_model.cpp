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

void SelfModel::forward(std::span<const Segment> batch, const Outputs& out) {
  extend(batch, out);
  int row = 0;
  for (const Segment& segment : batch) {
    const int n_tokens = int_size(segment.tokens), n_nodes = int_size(segment.parents);
    const int end = length(segment.sequence);
    for (int i = n_tokens - segment.logits_rows; i < n_tokens; ++i) {
      int position = end - n_tokens + i;
      if (n_nodes > 0) {
        const int node = n_nodes - n_tokens + i;
        position = end - n_nodes + depth_of(node, segment.parents);
      }
      say(segment.sequence, position, out.logits.row(row++));
    }
  }
}

void SelfModel::forward_chosen(std::span<const SequenceId> sequences, const std::int32_t*,
                               DeviceRows logits) {
  constexpr TokenId kAny = 0;
  for (int i = 0; i < int_size(sequences); ++i) {
    forward(Segment{sequences[i], std::span(&kAny, 1), 1}, logits.slice(i, 1));
  }
}

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

void SelfDrafter::draft(std::span<const DraftRequest> requests) {
  with_rows_.clear();
  for (const DraftRequest& request : requests) {
    request.drafts->clear();
    if (request.context.size() > 1) with_rows_.push_back(request);
  }
  if (with_rows_.empty()) return;
  model_.begin(with_rows_);
  ++forwards_;
  drafter_->draft(with_rows_);
}

}  // namespace specdec
