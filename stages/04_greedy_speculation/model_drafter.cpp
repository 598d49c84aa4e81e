#include "stages/04_greedy_speculation/model_drafter.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/sampling/device_sampling.h"

namespace specdec {

ModelDrafter::ModelDrafter(LanguageModel& model, int max_context, int max_requests, int vocab_size)
    : model_(model),
      logits_(model, max_requests),
      texts_(static_cast<std::size_t>(max_requests)),
      host_logits_(static_cast<std::size_t>(model.vocab_size())),
      scratch_(model.vocab_size()),
      sampler_(model.backend().make_sampler(
          {.vocab_size = vocab_size > 0 ? vocab_size : model.vocab_size(),
           .rows = max_requests,
           .history = max_requests * max_context})),
      chosen_(texts_.size()) {
  for (auto& text : texts_) text.reserve(static_cast<std::size_t>(max_context));
  batch_.reserve(texts_.size());
  drafting_.reserve(texts_.size());
  choices_.reserve(texts_.size());
}

// [snippet draft]
void ModelDrafter::draft(std::span<const DraftRequest> requests) {
  SPECDEC_CHECK(requests.size() <= texts_.size(), "at most {} requests", texts_.size());
  for (std::size_t r = 0; r < requests.size(); r++) {
    texts_[r].assign(requests[r].context.begin(), requests[r].context.end());
    requests[r].drafts->clear();
  }
  // [task 4.1: draft K tokens]
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
    if (requests[drafting_[0]].drafts->on_device()) {
      choose_on_device(requests, logits_.rows(0, n));
      continue;
    }
    for (int i = 0; i < n; i++) {
      const std::size_t r = drafting_[static_cast<std::size_t>(i)];
      choose(requests[r], logits_.rows(i, 1), texts_[r]);
    }
  }
  // [end task 4.1]
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

// choose() for a whole batch, logits [n, V], on a GPU: nothing but the tokens comes back.
void ModelDrafter::choose_on_device(std::span<const DraftRequest> requests,
                                    ConstDeviceRows logits) {
  choices_.clear();
  for (const std::size_t r : drafting_) {
    const Sampling& sampling = requests[r].sampling;
    choices_.push_back({.sampling = row_sampling(sampling.options, texts_[r]),
                        .by = sampling.options.temperature == 0 ? DrawBy::kLargest
                              : sampling.race                   ? DrawBy::kRace
                                                                : DrawBy::kInversion,
                        .position = static_cast<int>(texts_[r].size()),
                        .purpose = static_cast<std::uint32_t>(Purpose::kDraft),
                        .probs = requests[r].drafts->next_device_probs()});
    if (sampling.options.temperature > 0) choices_.back().seed = device_seed(*sampling.chance);
  }
  sampler_->choose(logits, choices_, std::span(chosen_).first(choices_.size()));
  for (std::size_t i = 0; i < drafting_.size(); i++) {
    const DraftRequest& request = requests[drafting_[i]];
    if (chosen_[i] < 0) fail_without_distribution();
    if (request.sampling.options.temperature == 0) {
      request.drafts->add_certain(chosen_[i]);
    } else {
      request.drafts->add_drawn_on_device(chosen_[i]);
    }
    texts_[drafting_[i]].push_back(chosen_[i]);
  }
}

void ModelDrafter::truncate(SequenceId sequence, int length) {
  if (length < model_.length(sequence)) model_.truncate(sequence, length);
}

}  // namespace specdec
