#pragma once
#include <memory>
#include <span>
#include <vector>

#include "common/speculation/drafter.h"
#include "common/speculation/uncached_model.h"

namespace specdec {

// A language model whose rows depend on a request's context and on how many drafts precede them,
// and not on which: all that it says in a round is known when the round begins.
class SelfModel : public UncachedModel {
 public:
  using UncachedModel::UncachedModel;

  // Up to the next call, the model says what follows the contexts of these requests, and drafts
  // after them. REQUIRES: contexts of at least shortest_context() tokens.
  virtual void begin(std::span<const DraftRequest> requests) = 0;

  virtual int shortest_context() const { return 1; }

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

// Drafts by a SelfModel: it begins the round, then another drafter chooses tokens.
class SelfDrafter final : public Drafter {
 public:
  // drafter: of that model, which outlives this object.
  SelfDrafter(SelfModel& model, std::unique_ptr<Drafter> drafter)
      : model_(model), drafter_(std::move(drafter)) {}

  SequenceId create() override { return drafter_->create(); }
  void release(SequenceId sequence) override { drafter_->release(sequence); }
  // No drafts after a context that is too short for the model.
  void draft(std::span<const DraftRequest> requests) override;
  void truncate(SequenceId sequence, int length) override { drafter_->truncate(sequence, length); }
  int length(SequenceId sequence) const override { return drafter_->length(sequence); }
  std::int64_t forwards() const override { return forwards_; }
  Capacity capacity(int spec_length) const override { return drafter_->capacity(spec_length); }
  void keep(SequenceId sequence, int length, std::span<const int> path) override {
    drafter_->keep(sequence, length, path);
  }

 private:
  SelfModel& model_;
  std::unique_ptr<Drafter> drafter_;
  std::vector<DraftRequest> begun_;
  std::int64_t forwards_ = 0;
};

}  // namespace specdec
