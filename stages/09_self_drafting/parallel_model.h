#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "stages/09_self_drafting/markov_model.h"
#include "stages/09_self_drafting/one_pass_model.h"

namespace specdec {

// The mask_token() in the config.json of a draft model that drafts in parallel. vocab_size: the
// model's. Throws Error.
TokenId read_mask_token(const std::filesystem::path& config, int vocab_size);

// A draft model that says K drafts in one pass (An et al. 2025, PARD): K - 1 mask tokens follow the
// context, and each says one token more. Its cache only ever contains tokens of the text.
class ParallelModel final : public OnePassModel {
 public:
  // max_drafts: in a row. max_requests: of one begin(), and sequences of this model. max_context:
  // the tokens of the longest context. REQUIRES: the draft model outlives this object.
  ParallelModel(LanguageModel& draft, TokenId mask, int max_drafts, int max_requests,
                int max_context);

  LanguageModel& draft() const { return draft_; }

  // Each request's target_sequence is one of the draft model's. After this, the draft model has
  // cached the request's context. Throws as LanguageModel::forward().
  void begin(std::span<const DraftRequest> requests) override;

 private:
  LanguageModel& draft_;
};

// Drafts by a ParallelModel. Its sequences are those of the draft model, which keep the contexts.
class ParallelDrafter final : public Drafter {
 public:
  // corrected: of that model, or null. drafter: of the corrected model, or of the model itself.
  ParallelDrafter(std::unique_ptr<ParallelModel> model, std::unique_ptr<MarkovModel> corrected,
                  std::unique_ptr<Drafter> drafter, int max_requests);

  SequenceId create() override { return model_->draft().create(); }
  void release(SequenceId sequence) override { model_->draft().release(sequence); }
  void draft(std::span<const DraftRequest> requests) override;
  void prefill(std::span<const Segment> chunks) override { model_->draft().forward(chunks, {}); }
  int uncached_before(SequenceId sequence, int end) const override {
    return end - length(sequence);
  }
  void truncate(SequenceId sequence, int length) override;
  int length(SequenceId sequence) const override { return model_->draft().length(sequence); }
  int context_limit() const override { return model_->draft().max_seq_len(); }
  std::int64_t forwards() const override { return drafter_.forwards(); }
  Capacity capacity(int spec_length) const override { return drafter_.capacity(spec_length); }

 private:
  std::unique_ptr<ParallelModel> model_;
  SelfDrafter drafter_;
  std::vector<SequenceId> places_;  // of the model: the one of each request of a call
  std::vector<DraftRequest> requests_;
};

}  // namespace specdec
