#include "stages/09_self_drafting/markov_model.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/llama_model.h"
#include "kernels/int_size.h"
#include "stages/09_self_drafting/head_file.h"

namespace specdec {

MarkovHead load_markov(const std::filesystem::path& folder, int vocab_size, Backend& backend) {
  HeadFile file(folder, 0);
  if (file.config().string("model_type") != "markov") {
    fail("{}: model_type is not markov", file.config().name());
  }
  const int rank = file.size_of("rank");
  const TensorView before = file.take("before.weight", {vocab_size, rank});
  const HostMatrix after = host_matrix(file.take("after.weight", {vocab_size, rank}));
  file.refuse_leftovers();
  std::vector<std::byte> with_zeros(before.bytes.begin(), before.bytes.end());
  with_zeros.resize(with_zeros.size() + with_zeros.size() / vocab_size);
  const HostMatrix rows =
      host_matrix(TensorView{before.dtype, {vocab_size + 1, rank}, std::span(with_zeros)});
  return {backend.load_matrix(std::span(&rows, 1)), backend.load_matrix(std::span(&after, 1))};
}

MarkovModel::MarkovModel(OnePassModel& model, MarkovHead head, int max_rows)
    : ForwardingModel(model),
      model_(model),
      head_(std::move(head)),
      ids_on_device_(model.backend(), max_rows),
      rows_(model.backend(), std::size_t(max_rows) * head_.before->width()),
      added_(model.backend(), std::size_t(max_rows) * model.vocab_size()) {
  ids_.reserve(max_rows);
}

// [snippet markov]
void MarkovModel::forward(std::span<const Segment> batch, const Outputs& out) {
  ForwardingModel::forward(batch, out);
  ids_.clear();
  for (const Segment& segment : batch) {
    const int n = int_size(segment.tokens);
    for (int i = n - segment.logits_rows; i < n; ++i) ids_.push_back(token_of_row(segment, i));
  }
  SPECDEC_CHECK(ids_.size() <= ids_on_device_.size(), "{} rows", ids_on_device_.size());
  backend().upload(ids_.data(), ids_on_device_.data(), ids_.size() * sizeof(TokenId));
  correct(ids_on_device_.data(), out.logits);
}

// logits[t] += after * before[ids[t]].
void MarkovModel::correct(const std::int32_t* ids, DeviceRows logits) {
  const DeviceRows rows = matrix(rows_, logits.rows, head_.before->width());
  const DeviceRows added = matrix(added_, logits.rows, logits.width);
  backend().embed(*head_.before, ids, rows);
  backend().matmul(rows, *head_.after, added);
  backend().add(logits, added);
}
// [end snippet markov]

// The token that a row follows. For the pending one, a token that adds nothing.
TokenId MarkovModel::token_of_row(const Segment& segment, int i) const {
  const int position = length(segment.sequence) - int_size(segment.tokens) + i;
  const bool is_pending =
      segment.parents.empty() && position == model_.pending_position(segment.sequence);
  return is_pending ? vocab_size() : segment.tokens[i];
}

// These are drafts.
void MarkovModel::forward_chosen(std::span<const SequenceId> sequences, const std::int32_t* ids,
                                 DeviceRows logits) {
  ForwardingModel::forward_chosen(sequences, ids, logits);
  correct(ids, logits);
}

}  // namespace specdec
