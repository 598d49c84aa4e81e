#include "stages/04_greedy_speculation/model_drafter.h"

#include <algorithm>

#include "common/base/check.h"

namespace specdec {

ModelDrafter::ModelDrafter(LanguageModel& model, int max_context, int max_requests)
    : model_(model),
      logits_(model, max_requests),
      texts_(static_cast<std::size_t>(max_requests)),
      host_logits_(static_cast<std::size_t>(model.vocab_size())),
      scratch_(model.vocab_size()) {
  for (auto& text : texts_) text.reserve(static_cast<std::size_t>(max_context));
  batch_.reserve(texts_.size());
  drafting_.reserve(texts_.size());
}

// [snippet draft]
void ModelDrafter::draft(std::span<const DraftRequest> requests) {
  SPECDEC_CHECK(requests.size() <= texts_.size(), "at most {} requests", texts_.size());
  for (std::size_t r = 0; r < requests.size(); r++) {
    texts_[r].assign(requests[r].context.begin(), requests[r].context.end());
    requests[r].drafts->clear();
  }
  for (int step = 0;; step++) {
    batch_.clear();
    drafting_.clear();
    for (std::size_t r = 0; r < requests.size(); r++) {
      if (requests[r].spec_length <= step) continue;
      const SequenceId sequence = requests[r].sequence;
      batch_.push_back({sequence, uncached(model_, sequence, texts_[r]), 1});
      drafting_.push_back(r);
    }
    if (batch_.empty()) return;
    const auto n = static_cast<int>(batch_.size());
    model_.forward(batch_, logits_.rows(0, n));
    forwards_++;
    for (int i = 0; i < n; i++) {
      const std::size_t r = drafting_[static_cast<std::size_t>(i)];
      choose(requests[r], logits_.rows(i, 1), texts_[r]);
    }
  }
}
// [end snippet draft]

// [snippet choose]
// The next token of the text, from logits [1, V]. What counts for acceptance later is the very
// distribution that the token is drawn from, so that one is kept.
void ModelDrafter::choose(const DraftRequest& request, ConstDeviceRows logits,
                          std::vector<TokenId>& text) {
  const Sampling& sampling = request.sampling;
  Drafts& drafts = *request.drafts;
  if (sampling.options.temperature == 0 && sampling.options.repetition_penalty == 1) {
    drafts.add_certain(argmax(model_.backend(), logits));
  } else {
    const auto position = static_cast<int>(text.size());
    const std::span<double> probs = drafts.next_probs();
    const std::size_t n = std::min(probs.size(), host_logits_.size());  // the others are padding
    model_.backend().download(logits.row(0), host_logits_.data(), n * sizeof(float));
    probabilities(std::span(host_logits_).first(n), text, sampling.options, scratch_,
                  probs.first(n));
    std::ranges::fill(probs.subspan(n), 0.0);
    if (sampling.options.temperature == 0) {
      drafts.add_certain(static_cast<TokenId>(std::ranges::max_element(probs) - probs.begin()));
    } else if (sampling.race) {
      drafts.add_drawn(sampling.chance->race(probs, position));
    } else {
      drafts.add_drawn(sampling.chance->token(probs, position, Purpose::kDraft));
    }
  }
  text.push_back(drafts.token(drafts.size() - 1));
}
// [end snippet choose]

void ModelDrafter::truncate(SequenceId sequence, int length) {
  if (length < model_.length(sequence)) model_.truncate(sequence, length);
}

}  // namespace specdec
