#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "common/language_model.h"
#include "common/speculation/drafter.h"

namespace specdec {

// A language model as a drafter: K steps, each of which feeds the token that the step before chose
// (Leviathan et al., Algorithm 1, the first loop, at temperature 0). One request after the other.
//
// There is no prefill and no special case. The model is fed whatever part of the context it has not
// seen: in the first round the whole prompt (a lazy prefill), after a round whose drafts were all
// accepted two tokens, since the last draft was never fed, and after plain steps all that those
// emitted.
class GreedyDrafter final : public Drafter {
 public:
  // REQUIRES: the model outlives this object. max_context: the longest context plus drafts.
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
