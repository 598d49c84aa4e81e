#include "stages/04_greedy_speculation/greedy_drafter.h"

namespace specdec {

GreedyDrafter::GreedyDrafter(LanguageModel& model, int max_context)
    : model_(model), logits_(model, 1) {
  text_.reserve(max_context);
}

void GreedyDrafter::draft(std::span<const DraftRequest> requests) {
  for (const DraftRequest& request : requests) draft(request);
}

// [snippet draft]
void GreedyDrafter::draft(const DraftRequest& request) {
  text_.assign(request.context.begin(), request.context.end());
  request.drafts->clear();
  // [task 4.6: draft K tokens]
  for (int i = 0; i < request.spec_length; i++) {
    const auto unseen = uncached(model_, request.sequence, text_);
    model_.forward(Segment{request.sequence, unseen, 1}, logits_.rows(0, 1));
    forwards_++;
    const TokenId token = argmax(model_.backend(), logits_.rows(0, 1));
    request.drafts->add_certain(token);
    text_.push_back(token);
  }
  // [end task 4.6]
}
// [end snippet draft]

void GreedyDrafter::truncate(SequenceId sequence, int length) {
  if (length < model_.length(sequence)) model_.truncate(sequence, length);
}

}  // namespace specdec
