#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/language_model.h"
#include "common/speculation/drafter.h"

namespace specdec {

// A request that gets one more draft.
struct NextDraft {
  const DraftRequest* request = nullptr;
  std::span<const TokenId> text;  // the context and the drafts so far
};

// Chooses the next draft of each request from the model's logits after the request's text.
class DraftChooser {
 public:
  virtual ~DraftChooser() = default;

  // Adds one token to each request's drafts. A request that gets none here drafts no more.
  // logits: [next.size(), V of the model].
  virtual void choose(std::span<const NextDraft> next, ConstDeviceRows logits) = 0;
};

// A draft model that drafts for several requests at once: each of the K steps is one pass over all
// requests that still draft. A request gets the same drafts in a batch as alone.
class ModelDrafter : public Drafter {
 public:
  // max_context: tokens of the longest context and its drafts; max_requests: the most requests per
  // call. REQUIRES: the model outlives this object.
  ModelDrafter(LanguageModel& model, std::unique_ptr<DraftChooser> chooser, int max_context,
               int max_requests = 1);

  SequenceId create() override { return model_.create(); }
  void release(SequenceId sequence) override { model_.release(sequence); }
  void draft(std::span<const DraftRequest> requests) override;
  void prefill(std::span<const Segment> chunks) override { model_.forward(chunks, {}); }
  int uncached_before(SequenceId sequence, int end) const override {
    return end - model_.length(sequence);
  }
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
  std::vector<NextDraft> next_;        // for each segment of the batch
  std::vector<std::size_t> drafting_;  // the index of each segment's request
  std::int64_t forwards_ = 0;
};

}  // namespace specdec
