#pragma once
#include <memory>
#include <span>
#include <vector>

#include "stages/06_batched_verification/batched_rounds.h"
#include "stages/programs/sampling/device_judge.h"

namespace specdec {

// Judges the rounds of a step on a GPU: one verdict for all requests, then each emits its own
// tokens. The decisions are those of the requests' own judges.
class DeviceBatchJudge final : public BatchJudge {
 public:
  // spec_length: the largest K; max_context: of a request. REQUIRES: the backend samples, and
  // outlives this object.
  DeviceBatchJudge(Backend& backend, int max_batch, int spec_length, int vocab_size,
                   int max_context, Overlaps overlaps);

  Backend* memory() const override { return &backend_; }
  void judge(std::span<const RoundToJudge> rounds) override;

 private:
  Backend& backend_;
  std::unique_ptr<Sampler> sampler_;
  std::vector<DraftedRound> drafted_;     // what the GPU is to judge, and what it says
  std::vector<Verdict> verdicts_;         // [max_batch]
  std::vector<double> acceptance_probs_;  // [max_batch * K]; none where overlaps are not counted
};

}  // namespace specdec
