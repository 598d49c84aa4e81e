#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/language_model.h"
#include "common/speculation/drafter.h"

namespace specdec {

// A language model as a drafter: K steps, each of which feeds the token that the step before chose
// (Leviathan et al., Algorithm 1, the first loop).
//
// There is no prefill and no special case. The model is fed whatever part of the context it has not
// seen: in the first round the whole prompt (a lazy prefill), after a round whose drafts were all
// accepted two tokens, since the last draft was never fed, and after plain steps all that those
// emitted.
//
// The drafts' vocabulary may have more rows than the model's, or fewer: what one of them lacks is
// padding, which has probability zero.
class ModelDrafter final : public Drafter {
 public:
  // REQUIRES: the model outlives this object. max_context: the longest context plus drafts;
  // max_requests: the most requests of one call; vocab_size: of the drafts' distributions, 0: as
  // the model's.
  ModelDrafter(LanguageModel& model, int max_context, int max_requests = 1, int vocab_size = 0);

  SequenceId create() override { return model_.create(); }
  void release(SequenceId sequence) override { model_.release(sequence); }
  void draft(std::span<const DraftRequest> requests) override;
  void truncate(SequenceId sequence, int length) override;
  int length(SequenceId sequence) const override { return model_.length(sequence); }
  int context_limit() const override { return model_.max_seq_len(); }
  std::int64_t forwards() const override { return forwards_; }

 private:
  void choose(const DraftRequest& request, ConstDeviceRows logits, std::vector<TokenId>& text);
  void choose_on_device(std::span<const DraftRequest> requests, ConstDeviceRows logits);

  LanguageModel& model_;
  LogitsBuffer logits_;                      // [max_requests, V]
  std::vector<std::vector<TokenId>> texts_;  // [max_requests] context and drafts so far
  std::vector<Segment> batch_;
  std::vector<std::size_t> drafting_;  // the requests of the batch
  std::vector<float> host_logits_;     // [V]
  SamplingScratch scratch_;
  std::unique_ptr<Sampler> sampler_;  // null where the host's code chooses
  std::vector<Choice> choices_;       // [max_requests]
  std::vector<TokenId> chosen_;       // [max_requests]
  std::int64_t forwards_ = 0;
};

}  // namespace specdec
