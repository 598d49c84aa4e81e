#pragma once
#include <vector>

#include "common/generation.h"
#include "common/language_model.h"
#include "common/speculation/drafter.h"
#include "common/speculation/round.h"

namespace specdec {

// Decides which drafts of a round become text, and which token follows them.
class RoundJudge {
 public:
  virtual ~RoundJudge() = default;

  // Emits accepted drafts and the token after them into the context and the generation, until one
  // is rejected or the generation ends, and writes into the round what became of it. logits:
  // [drafts.size() + 1, V], what the target says after the pending token and after each draft.
  // REQUIRES: the context is the prompt and all that was emitted; the generation is not finished.
  virtual void judge(const Drafts& drafts, DeviceRows logits, std::vector<TokenId>& context,
                     Generation& generation, Round& round) = 0;

  // What drafts must be drawn with.
  const Sampling& drafting() const { return drafting_; }
  Sampling& drafting() { return drafting_; }

 protected:
  Sampling drafting_;
};

}  // namespace specdec
