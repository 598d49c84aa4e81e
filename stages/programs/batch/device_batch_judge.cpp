#include "stages/programs/batch/device_batch_judge.h"

#include <algorithm>

#include "common/base/error.h"

namespace specdec {

DeviceBatchJudge::DeviceBatchJudge(Backend& backend, int max_batch, int spec_length, int vocab_size,
                                   int max_context, Overlaps overlaps)
    : backend_(backend),
      sampler_(backend.make_sampler({.vocab_size = vocab_size,
                                     .rows = max_batch * (spec_length + 1),
                                     .rounds = max_batch,
                                     .history = max_batch * max_context})),
      verdicts_(static_cast<std::size_t>(max_batch)),
      acceptance_probs_(overlaps == Overlaps::kCounted ? static_cast<std::size_t>(max_batch) *
                                                             static_cast<std::size_t>(spec_length)
                                                       : 0) {
  drafted_.reserve(verdicts_.size());
}

// [snippet batched-judge-on-device]
void DeviceBatchJudge::judge(std::span<const RoundToJudge> rounds) {
  drafted_.clear();
  std::size_t n_drafts = 0;
  for (const auto& [r, drafts, logits] : rounds) {
    drafted_.push_back(drafted_round(*r->judge, *drafts, logits, r->context));
    n_drafts += drafted_.back().drafts.size();
  }
  auto acceptance_probs =
      std::span(acceptance_probs_).first(std::min(acceptance_probs_.size(), n_drafts));
  sampler_->judge(drafted_, std::span(verdicts_).first(drafted_.size()), acceptance_probs);
  for (std::size_t i = 0; i < rounds.size(); i++) {
    RequestState& r = *rounds[i].request;
    const std::size_t n = std::min(acceptance_probs.size(), drafted_[i].drafts.size());
    try {
      emit(verdicts_[i], acceptance_probs.first(n), *rounds[i].drafts, r.context, r.generation,
           r.round);
    } catch (const Error& error) {
      r.failure = error.what();
    }
    acceptance_probs = acceptance_probs.subspan(n);
  }
}
// [end snippet batched-judge-on-device]

}  // namespace specdec
