#include "stages/09_self_drafting/one_pass_model.h"

#include <utility>

#include "common/base/check.h"
#include "kernels/int_size.h"

namespace specdec {

OnePassModel::OnePassModel(Backend& backend, int vocab_size, std::vector<TokenId> appended,
                           int max_requests, int max_context)
    : SelfModel(max_requests),
      backend_(backend),
      vocab_size_(vocab_size),
      appended_(std::move(appended)),
      parts_(max_requests),
      logits_(backend, std::size_t(max_requests) * max_drafts() * vocab_size) {
  tokens_.reserve(std::size_t(max_requests) * (max_context + appended_.size()));
  batch_.reserve(max_requests);
}

// [snippet one-pass]
void OnePassModel::pass(LanguageModel& model, std::span<const DraftRequest> requests) {
  int n_rows = 0;
  tokens_.clear();
  batch_.clear();
  // [task 9.4: one pass for all drafts]
  for (const DraftRequest& r : requests) {
    const int K = r.spec_length;
    SPECDEC_CHECK(1 <= K && K <= max_drafts(), "1 to {} drafts, not {}", max_drafts(), K);
    const auto left = uncached(model, r.target_sequence, r.context);
    const std::size_t first = tokens_.size(), n = left.size() + K - 1;
    SPECDEC_CHECK(first + n <= tokens_.capacity(), "at most {} tokens", tokens_.capacity());
    tokens_.insert(tokens_.end(), left.begin(), left.end());
    tokens_.insert(tokens_.end(), appended_.begin(), appended_.begin() + K - 1);
    batch_.push_back({r.target_sequence, std::span(tokens_).subspan(first, n), K});
    parts_[r.sequence] = {.first = n_rows, .rows = K, .begin = int_size(r.context) - 1};
    n_rows += K;
  }
  model.forward(batch_, matrix(logits_, n_rows, vocab_size_));
  // [end task 9.4]
}

// What follows the pending token is in a request's first row.
void OnePassModel::say(SequenceId sequence, int position, float* to) {
  const auto [first, rows, begin] = parts_[sequence];
  const int row = position - begin;
  SPECDEC_CHECK(0 <= row && row < rows, "row 0 to {}, not {}", rows - 1, row);
  const DeviceRows logits = matrix(logits_, first + rows, vocab_size_);
  backend().copy(logits.row(first + row), to, vocab_size_ * sizeof(float));
}
// [end snippet one-pass]

}  // namespace specdec
