#include "common/speculation/model_drafter.h"

#include <utility>

#include "common/base/check.h"
#include "kernels/int_size.h"

namespace specdec {

ModelDrafter::ModelDrafter(LanguageModel& model, std::unique_ptr<DraftChooser> chooser,
                           int max_context, int max_requests)
    : model_(model),
      chooser_(std::move(chooser)),
      logits_(model, max_requests),
      texts_(max_requests) {
  for (auto& text : texts_) text.reserve(max_context);
  batch_.reserve(texts_.size());
  next_.reserve(texts_.size());
  drafting_.reserve(texts_.size());
}

// [snippet side-by-side]
void ModelDrafter::draft(std::span<const DraftRequest> requests) {
  SPECDEC_CHECK(requests.size() <= texts_.size(), "at most {} requests", texts_.size());
  for (std::size_t r = 0; r < requests.size(); r++) {
    texts_[r].assign(requests[r].context.begin(), requests[r].context.end());
    requests[r].drafts->clear();
  }
  for (int step = 0;; step++) {
    batch_.clear();
    next_.clear();
    drafting_.clear();
    for (std::size_t r = 0; r < requests.size(); r++) {
      if (is_complete(requests[r]) || requests[r].drafts->size() < step) continue;
      const SequenceId sequence = requests[r].sequence;
      batch_.push_back({sequence, uncached(model_, sequence, texts_[r]), 1});
      next_.push_back({&requests[r], texts_[r]});
      drafting_.push_back(r);
    }
    if (batch_.empty()) return;
    const DeviceRows logits = logits_.rows(0, int_size(batch_));
    model_.forward(batch_, logits);
    forwards_++;
    chooser_->choose(next_, logits);
    for (const std::size_t r : drafting_) {
      const Drafts& drafts = *requests[r].drafts;
      if (drafts.size() > step) texts_[r].push_back(drafts.token(step));
    }
  }
}
// [end snippet side-by-side]

void ModelDrafter::truncate(SequenceId sequence, int length) {
  if (length < model_.length(sequence)) model_.truncate(sequence, length);
}

}  // namespace specdec
