#pragma once
#include <vector>

#include "common/generation.h"
#include "common/language_model.h"
#include "common/speculation/drafter.h"
#include "common/speculation/round.h"

namespace specdec {

// Decides which drafts of a round are accepted, and which token follows them.
class RoundJudge {
 public:
  virtual ~RoundJudge() = default;

  // Appends the accepted drafts and the correction or bonus to the context and the generation,
  // unless the generation finishes earlier, and writes the outcome into the round. logits:
  // [drafts.size() + 1, V] of the target, after the pending token and after each draft. REQUIRES:
  // the context is the prompt and all emitted tokens; the generation is not finished.
  virtual void judge(const Drafts& drafts, DeviceRows logits, std::vector<TokenId>& context,
                     Generation& generation, Round& round) = 0;

  // How the drafts must be drawn.
  const Sampling& drafting() const { return drafting_; }
  Sampling& drafting() { return drafting_; }

 protected:
  Sampling drafting_;
};

}  // namespace specdec
