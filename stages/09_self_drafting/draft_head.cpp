#include "stages/09_self_drafting/draft_head.h"

#include <limits>

#include "kernels/int_size.h"

namespace specdec {

Projection::Projection(const LlamaModel& target, const DraftHead& head, int token_limit)
    : ops_(target.backend()),
      head_(head.of(target)),
      token_limit_(token_limit),
      said_(target.backend()) {
  if (head.tokens.empty()) return;
  const int rows = int_size(head.tokens);
  std::vector<std::int32_t> row_of(target.config().vocab_size, rows);  // of a token without a row
  for (int i = 0; i < rows; ++i) row_of[head.tokens[i]] = i;
  row_of_token_ = DeviceArray<std::int32_t>(ops_, row_of.size());
  ops_.upload(row_of.data(), row_of_token_.data(), row_of.size() * sizeof(std::int32_t));
}

// [snippet project]
// A head of fewer tokens says minus infinity of all others. So q is 0 there, and it is still the
// distribution that the draft is drawn from.
void Projection::project(ConstDeviceRows rows, DeviceRows logits) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const int V = logits.width;
  if (row_of_token_.size() == 0) {
    ops_.matmul(rows, head_, logits);
  } else {
    const int n = head_.rows();
    constexpr int kPadding = 16;  // one number for the tokens that the head lacks
    const DeviceRows said = said_.rows(rows.rows, n + kPadding);
    ops_.matmul(rows, head_, said.columns(0, n));
    ops_.fill(said.columns(n, kPadding), kNever);
    for (int i = 0; i < rows.rows; ++i) {
      const ConstDeviceRows by_row{said.row(i), n + 1, 1, 1};
      ops_.gather_rows(by_row, row_of_token_.data(), {logits.row(i), V, 1, 1});
    }
  }
  if (token_limit_ < V) ops_.fill(logits.columns(token_limit_, V - token_limit_), kNever);
}
// [end snippet project]

}  // namespace specdec
