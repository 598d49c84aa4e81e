#pragma once
#include <span>
#include <vector>

#include "kernels/int_size.h"
#include "stages/09_self_drafting/self_model.h"

namespace specdec {

// A model that says all of a round's drafts in one pass: tokens that are not part of the text are
// appended to the context, and each says one draft more.
class OnePassModel : public SelfModel {
 public:
  // The most drafts in a row: the context says one, and each appended token another one.
  int max_drafts() const final { return int_size(appended_) + 1; }
  // In the round that begin() began.
  int pending_position(SequenceId sequence) const { return parts_[sequence].begin; }
  int vocab_size() const final { return vocab_size_; }
  Backend& backend() const final { return backend_; }

 protected:
  // appended: ids of the tokens, in this order. max_requests: of one begin(), and sequences.
  // max_context: the most tokens that a pass is fed of one context.
  OnePassModel(Backend& backend, int vocab_size, std::vector<TokenId> appended, int max_requests,
               int max_context);

  // Runs the pass of a round with K drafts: what the model has not seen of each context, then the
  // first K - 1 appended tokens. Each request's target_sequence is one of this model's. Then the
  // model still has the appended tokens, and no draft. Throws as LanguageModel::forward().
  // REQUIRES: 1 <= K <= max_drafts().
  void pass(LanguageModel& model, std::span<const DraftRequest> requests);

 private:
  // A request's rows of logits. begin: the position of its pending token.
  struct Part {
    int first = 0, rows = 0, begin = 0;
  };
  void say(SequenceId sequence, int position, float* to) final;

  Backend& backend_;
  int vocab_size_;
  std::vector<TokenId> appended_;
  std::vector<TokenId> tokens_;  // of all segments; its memory never moves
  std::vector<Segment> batch_;
  std::vector<Part> parts_;    // by sequence
  DeviceArray<float> logits_;  // [max_requests * max_drafts(), V]
};

}  // namespace specdec
