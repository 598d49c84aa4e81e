#pragma once
#include <memory>
#include <span>
#include <vector>

#include "common/llama_model.h"
#include "common/speculation/target_rows.h"
#include "stages/09_self_drafting/heads.h"
#include "stages/09_self_drafting/self_model.h"

namespace specdec {

// A target's heads, which all look at the same row: the target's last one.
class HeadsModel final : public SelfModel {
 public:
  // token_limit: ids from here on are not tokens. max_requests: of one begin(), and sequences.
  // REQUIRES: the target's weights outlive this object.
  HeadsModel(const LlamaModel& target, LoadedHeads heads, int token_limit, int max_requests);

  // From now on, heads look at these rows. REQUIRES: they outlive the last call of begin().
  void read(TargetRows& rows) { rows_ = &rows; }

  // The row of a context's last token but one must be known.
  int shortest_context() const override { return 2; }
  int max_drafts() const override { return heads_->count(); }
  // Computes all heads for these requests. Each says what follows one draft more.
  void begin(std::span<const DraftRequest> requests) override;

  int vocab_size() const override { return target_.config().vocab_size; }
  Backend& backend() const override { return target_.backend(); }

 private:
  // Of a sequence in begin(): its place among the requests, and the tokens before its pending one.
  struct Begun {
    int place = 0, start = 0;
  };
  void say(SequenceId sequence, int position, float* logits) override;

  const LlamaModel& target_;
  std::unique_ptr<Heads> heads_;
  std::vector<DraftHead> says_;
  std::vector<Projection> projections_;  // of says_
  int max_requests_;
  TargetRows* rows_ = nullptr;
  int n_requests_ = 0;
  std::vector<Begun> begun_;   // by sequence
  DeviceArray<float> last_;    // [max_requests, d_model]
  DeviceArray<float> made_;    // [count * max_requests, d_model]
  DeviceArray<float> logits_;  // [count * max_requests, V]
};

}  // namespace specdec
