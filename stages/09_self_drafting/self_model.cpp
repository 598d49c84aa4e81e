#include "stages/09_self_drafting/self_model.h"

#include <algorithm>

#include "common/base/token_id.h"
#include "kernels/int_size.h"

namespace specdec {

// [snippet ask-by-depth]
void SelfModel::forward(std::span<const Segment> batch, const Outputs& out) {
  extend(batch, out);
  int row = 0;
  for (const Segment& segment : batch) {
    const int n_tokens = int_size(segment.tokens), n_nodes = int_size(segment.parents);
    const int end = length(segment.sequence);
    // [task 9.5: ask by depth]
    for (int i = n_tokens - segment.logits_rows; i < n_tokens; ++i) {
      int position = end - n_tokens + i;
      if (n_nodes > 0) {
        const int node = n_nodes - n_tokens + i;
        position = end - n_nodes + depth_of(node, segment.parents);
      }
      say(segment.sequence, position, out.logits.row(row++));
    }
    // [end task 9.5]
  }
}
// [end snippet ask-by-depth]

void SelfModel::forward_chosen(std::span<const SequenceId> sequences, const std::int32_t*,
                               DeviceRows logits) {
  constexpr TokenId kAny = 0;
  for (int i = 0; i < int_size(sequences); ++i) {
    forward(Segment{sequences[i], std::span(&kAny, 1), 1}, logits.slice(i, 1));
  }
}

void SelfDrafter::draft(std::span<const DraftRequest> requests) {
  begun_.clear();
  for (const DraftRequest& request : requests) {
    request.drafts->clear();
    const bool can_begin = int_size(request.context) >= model_.shortest_context();
    if (!can_begin || request.spec_length == 0) continue;
    begun_.push_back(request);
    begun_.back().spec_length = std::min(request.spec_length, model_.max_drafts());
    context(request.sequence) = int_size(request.context);
  }
  if (begun_.empty()) return;
  model_.begin(begun_);
  ++forwards_;
  drafter_->draft(begun_);
}

void SelfDrafter::truncate(SequenceId sequence, int length) {
  drafter_->truncate(sequence, std::min(length, context(sequence)));
}

void SelfDrafter::release(SequenceId sequence) {
  drafter_->release(sequence);
  context(sequence) = 0;
}

int& SelfDrafter::context(SequenceId sequence) {
  if (sequence >= int_size(contexts_)) contexts_.resize(sequence + 1);
  return contexts_[sequence];
}

}  // namespace specdec
