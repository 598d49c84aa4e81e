#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/language_model.h"
#include "common/speculation/drafter.h"

namespace specdec {

// A request that gets one more draft, and its text: the context and the drafts so far.
struct NextDraft {
  const DraftRequest* request = nullptr;
  std::span<const TokenId> text;
};

// Chooses the next drafts of some requests from what a model says after their texts.
class DraftChooser {
 public:
  virtual ~DraftChooser() = default;

  // Adds one token to the drafts of each request, or none, and then the request gets no more.
  // logits: [next.size(), V of the model].
  virtual void choose(std::span<const NextDraft> next, ConstDeviceRows logits) = 0;
};

// A language model that drafts for several requests side by side: in each of K steps one pass over
// all requests that still get a token. Each request gets what it would get alone.
class ModelDrafter : public Drafter {
 public:
  // REQUIRES: the model outlives this object. max_context: the longest context plus drafts;
  // max_requests: the most requests of one call.
  ModelDrafter(LanguageModel& model, std::unique_ptr<DraftChooser> chooser, int max_context,
               int max_requests = 1);

  SequenceId create() override { return model_.create(); }
  void release(SequenceId sequence) override { model_.release(sequence); }
  void draft(std::span<const DraftRequest> requests) override;
  void truncate(SequenceId sequence, int length) override;
  int length(SequenceId sequence) const override { return model_.length(sequence); }
  int context_limit() const override { return model_.max_seq_len(); }
  std::int64_t forwards() const override { return forwards_; }

 private:
  LanguageModel& model_;
  std::unique_ptr<DraftChooser> chooser_;
  LogitsBuffer logits_;                      // [max_requests, V]
  std::vector<std::vector<TokenId>> texts_;  // [max_requests] context and drafts so far
  std::vector<Segment> batch_;
  std::vector<NextDraft> next_;        // of the batch
  std::vector<std::size_t> drafting_;  // their places among the requests
  std::int64_t forwards_ = 0;
};

}  // namespace specdec
