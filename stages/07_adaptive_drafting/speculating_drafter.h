#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/language_model.h"
#include "common/speculation/drafter.h"
#include "stages/07_adaptive_drafting/sequence_pairs.h"

namespace specdec {

// A draft model that drafts with a cheaper drafter of its own, in whole rounds of speculation whose
// target is the draft model. The cheaper drafter may itself be a SpeculatingDrafter, and so on.
//
// The drafts have the distribution that the draft model has without the inner drafter. So every
// token carries the model's q, whether it is an accepted inner draft, a correction or a bonus. The
// inner drafter's distribution is not needed any more.
class SpeculatingDrafter final : public Drafter {
 public:
  // Totals of the inner rounds so far: passes of the model, and inner drafts.
  struct Counts {
    std::int64_t passes = 0, drafted = 0, tested = 0, accepted = 0;
  };

  // spec_length: k, the inner drafts of a round; max_context: the longest context plus drafts;
  // vocab_size: of the drafts' distributions.
  // REQUIRES: the model outlives this object; spec_length >= 1.
  SpeculatingDrafter(LanguageModel& model, std::shared_ptr<Drafter> inner, int spec_length,
                     int max_context, int vocab_size);

  SequenceId create() override;
  void release(SequenceId sequence) override;
  void draft(std::span<const DraftRequest> requests) override;
  void prefill(std::span<const Segment> chunks) override;
  int uncached_before(SequenceId sequence, int end) const override {
    return end - length(sequence);
  }
  void truncate(SequenceId sequence, int length) override;
  int length(SequenceId sequence) const override;
  // Once the inner drafter's context is full, the model drafts alone.
  int context_limit() const override { return model_.max_seq_len(); }
  std::int64_t forwards() const override { return counts_.passes + inner_->forwards(); }
  const Counts& counts() const { return counts_; }
  int spec_length() const { return spec_length_; }  // k

 private:
  void draft(const DraftRequest& request);
  void draft_inside(const DraftRequest& request, RandomSource* random);
  void verify(SequenceId sequence);
  bool judge(const DraftRequest& request, RandomSource* random);
  bool gate_goes_on(const DraftRequest& request, int row);
  TokenId likeliest(const DraftRequest& request, int row);
  TokenId draw(const DraftRequest& request, int row, RandomSource* random);
  std::span<const double> make_probs(const DraftRequest& request, int row,
                                     const SamplingOptions& options);

  LanguageModel& model_;
  std::shared_ptr<Drafter> inner_;
  int spec_length_;
  SequencePairs pairs_;  // sequences of the model and of the inner drafter

  Drafts inner_drafts_;
  LogitsBuffer logits_;            // [k + 1, V of the model]
  std::vector<TokenId> text_;      // the context and the drafts so far
  std::vector<TokenId> verified_;  // the tokens that a pass is fed
  std::vector<float> host_logits_;
  std::vector<double> residual_;  // [V]
  SamplingScratch scratch_;
  Counts counts_;
};

}  // namespace specdec
