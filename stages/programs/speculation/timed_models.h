#pragma once
#include "common/base/stopwatch.h"
#include "common/forwarding_model.h"
#include "common/speculation/drafter.h"

namespace specdec {

// A model and a drafter as they are, with a clock that runs while they work: so that a round can be
// timed from outside.
class TimedModel final : public ForwardingModel {
 public:
  using ForwardingModel::ForwardingModel;

  using LanguageModel::forward;
  void forward(std::span<const Segment> batch, DeviceRows logits) override {
    const Stopwatch watch(seconds_);
    ForwardingModel::forward(batch, logits);
  }

  double seconds() const { return seconds_; }  // of all passes so far

 private:
  double seconds_ = 0;
};

class TimedDrafter final : public Drafter {
 public:
  explicit TimedDrafter(Drafter& drafter)
      : drafter_(drafter) {}  // REQUIRES: it outlives this object

  void draft(std::span<const DraftRequest> requests) override {
    const DraftRequest& first = requests.front();
    caught_up_ = drafter_.length(first.sequence) + 2 < std::ssize(first.context);
    const Stopwatch watch(seconds_);
    drafter_.draft(requests);
  }
  SequenceId create() override { return drafter_.create(); }
  void release(SequenceId sequence) override { drafter_.release(sequence); }
  void truncate(SequenceId sequence, int length) override { drafter_.truncate(sequence, length); }
  int length(SequenceId sequence) const override { return drafter_.length(sequence); }
  int context_limit() const override { return drafter_.context_limit(); }
  std::int64_t forwards() const override { return drafter_.forwards(); }

  double seconds() const { return seconds_; }    // of all draft phases so far
  bool caught_up() const { return caught_up_; }  // the last one began with more than two tokens

 private:
  Drafter& drafter_;
  double seconds_ = 0;
  bool caught_up_ = false;
};

}  // namespace specdec
