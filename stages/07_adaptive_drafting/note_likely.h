#pragma once
#include <memory>
#include <utility>

#include "common/speculation/likely_tokens.h"
#include "common/speculation/round.h"
#include "stages/06_batched_verification/batched_rounds.h"

namespace specdec {

// After a round is judged: notes what the target found likeliest at the places of the tokens that
// the round emitted, the lower id first among equals. logits: [drafts + 1, V] of the round.
// REQUIRES: the tokens before the round's are noted, or are the prompt; V is at least k.
void note_likely(const Round& round, ConstDeviceRows logits, Backend& backend,
                 LikelyTokens& likely);

// Judges rounds as another one does, and notes the likeliest tokens for the drafts of each request.
// The notes are the request's own, so they outlive a preemption.
class NotingBatchJudge final : public BatchJudge {
 public:
  // k: tokens of a place. REQUIRES: the backend outlives this object.
  NotingBatchJudge(std::shared_ptr<BatchJudge> judge, Backend& backend, int k)
      : judge_(std::move(judge)), backend_(backend), k_(k) {}

  Backend* memory() const override { return judge_->memory(); }
  std::unique_ptr<Judge> make_judge(Backend& backend, RandomSource& random,
                                    const SpeculationOptions& options,
                                    JudgingScratch& scratch) const override {
    return judge_->make_judge(backend, random, options, scratch);
  }
  void judge(std::span<const RoundToJudge> rounds) override;
  void roll_back(const Round& round, const RoundCaches& caches) const override {
    judge_->roll_back(round, caches);
  }

 private:
  std::shared_ptr<BatchJudge> judge_;
  Backend& backend_;
  int k_;
};

}  // namespace specdec
