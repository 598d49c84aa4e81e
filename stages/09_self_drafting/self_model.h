#pragma once
#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "common/speculation/drafter.h"
#include "common/speculation/uncached_model.h"

namespace specdec {

// A language model that is told when a round begins.
class RoundModel {
 public:
  virtual ~RoundModel() = default;

  // Up to the next call, the model says what follows the contexts of these requests, and drafts
  // after them. REQUIRES: contexts of at least shortest_context() tokens.
  virtual void begin(std::span<const DraftRequest> requests) = 0;
  virtual int shortest_context() const { return 1; }
  virtual bool at_once() const = 0;  // begin() computes all that the model says in the round
  virtual int max_drafts() const { return std::numeric_limits<int>::max(); }  // in a row
};

// A language model whose rows depend on a request's context and on how many drafts precede them,
// and not on which: all that it says in a round is known when the round begins.
class SelfModel : public UncachedModel, public RoundModel {
 public:
  using UncachedModel::UncachedModel;
  bool at_once() const final { return true; }

  using LanguageModel::forward;
  // REQUIRES: the sequences are among those of begin().
  void forward(std::span<const Segment> batch, const Outputs& out) final;
  // The same, because no row depends on a draft.
  void forward_chosen(std::span<const SequenceId> sequences, const std::int32_t* ids,
                      DeviceRows logits) final;
  bool feeds_from_device() const final { return backend().samples(); }

 protected:
  // Writes what follows a token of the sequence, [V] in the backend's memory. position: of the
  // token; the context's last token is the first one that is asked about.
  virtual void say(SequenceId sequence, int position, float* logits) = 0;
};

// Drafts by a RoundModel: it begins the round, then another drafter chooses tokens.
class SelfDrafter final : public Drafter {
 public:
  // drafter: of that model, which outlives this object; or of `corrected`, which asks that model.
  SelfDrafter(RoundModel& model, std::unique_ptr<Drafter> drafter,
              std::unique_ptr<LanguageModel> corrected = nullptr)
      : model_(model), corrected_(std::move(corrected)), drafter_(std::move(drafter)) {}

  SequenceId create() override { return drafter_->create(); }
  void release(SequenceId sequence) override;
  // At most max_drafts() in a row; none after a context that is too short for the model.
  void draft(std::span<const DraftRequest> requests) override;
  // Forgets all drafts of the last round, even those of an accepted path: what the model knows of
  // them, it computed without the target. The next round feeds the accepted ones anew.
  void truncate(SequenceId sequence, int length) override;
  int length(SequenceId sequence) const override { return drafter_->length(sequence); }
  int context_limit() const override { return drafter_->context_limit(); }
  std::int64_t forwards() const override {
    return model_.at_once() ? forwards_ : drafter_->forwards();
  }
  Capacity capacity(int spec_length) const override {
    return drafter_->capacity(std::min(spec_length, model_.max_drafts()));
  }

 private:
  int& context(SequenceId sequence);

  RoundModel& model_;
  std::unique_ptr<LanguageModel> corrected_;
  std::unique_ptr<Drafter> drafter_;
  std::vector<DraftRequest> begun_;
  std::vector<int> contexts_;  // by sequence: tokens of the context that it last drafted after
  std::int64_t forwards_ = 0;
};

}  // namespace specdec
