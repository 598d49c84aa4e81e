#pragma once
#include <memory>
#include <utility>

#include "common/speculation/likely_tokens.h"
#include "common/speculation/round.h"
#include "stages/06_batched_verification/batched_rounds.h"

namespace specdec {

// Call after a round is judged. Notes the target's k likeliest tokens at the position of each
// emitted token, the lower id first among equals. logits: [drafts + 1, V] of the round.
// REQUIRES: all earlier tokens are noted or belong to the prompt; V >= k.
void note_likely(const Round& round, ConstDeviceRows logits, Backend& backend,
                 LikelyTokens& likely);

// Judges rounds with another judge, and notes the target's likeliest tokens for each request's
// drafter. The notes belong to the request, so they survive preemption.
class NotingBatchJudge final : public BatchJudge {
 public:
  // k: tokens per position. REQUIRES: the backend outlives this object.
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
