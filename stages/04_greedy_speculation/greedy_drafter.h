#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "common/language_model.h"
#include "common/speculation/drafter.h"

namespace specdec {

// A draft model that drafts greedily: K steps, each of which feeds the token that the previous step
// chose (Leviathan et al., Algorithm 1, first loop, at temperature 0). Serves requests in turn.
//
// There is no separate prefill and no special case: the model is fed the part of the context that
// it has not seen. That is the whole prompt in the first round (a lazy prefill), two tokens after a
// round that accepted all drafts (the last one was never fed), and all tokens of plain steps.
class GreedyDrafter final : public Drafter {
 public:
  // max_context: tokens of the longest context and its drafts. REQUIRES: the model outlives this
  // object.
  GreedyDrafter(LanguageModel& model, int max_context);

  SequenceId create() override { return model_.create(); }
  void release(SequenceId sequence) override { model_.release(sequence); }
  void draft(std::span<const DraftRequest> requests) override;
  void truncate(SequenceId sequence, int length) override;
  int length(SequenceId sequence) const override { return model_.length(sequence); }
  int context_limit() const override { return model_.max_seq_len(); }
  std::int64_t forwards() const override { return forwards_; }

 private:
  void draft(const DraftRequest& request);

  LanguageModel& model_;
  LogitsBuffer logits_;        // [1, V]
  std::vector<TokenId> text_;  // the context and the drafts so far
  std::int64_t forwards_ = 0;
};

}  // namespace specdec
