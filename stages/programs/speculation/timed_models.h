#pragma once
#include <cstdint>
#include <span>

#include "common/base/check.h"
#include "common/base/stopwatch.h"
#include "common/forwarding_model.h"
#include "common/run_stats.h"
#include "common/speculation/forwarding_drafter.h"
#include "common/speculation/round.h"

namespace specdec {

// Wraps a model, and counts the seconds of its passes. With TimedDrafter, this times the parts of a
// round without a clock in the lessons' code.
class TimedModel final : public ForwardingModel {
 public:
  using ForwardingModel::ForwardingModel;

  using LanguageModel::forward;
  void forward(std::span<const Segment> batch, const Outputs& out) override {
    const Stopwatch watch(seconds_);
    ForwardingModel::forward(batch, out);
    backend().wait();
  }
  void forward_chosen(std::span<const SequenceId> sequences, const std::int32_t* ids,
                      DeviceRows logits) override {
    const Stopwatch watch(seconds_);
    ForwardingModel::forward_chosen(sequences, ids, logits);
    backend().wait();
  }

  double seconds() const { return seconds_; }  // total of all passes so far

 private:
  double seconds_ = 0;
};

// Wraps a gate, and counts how often it refuses a draft.
class CountedGate final : public DraftGate {
 public:
  void stands_for(DraftGate* gate) { gate_ = gate; }
  std::int64_t refused() const { return refused_; }

  bool goes_on(std::span<const double> draft_probs, int drafted) override {
    const bool yes = gate_->goes_on(draft_probs, drafted);
    refused_ += yes ? 0 : 1;
    return yes;
  }
  bool has_enough(int drafted) const override { return gate_->has_enough(drafted); }

 private:
  DraftGate* gate_ = nullptr;
  std::int64_t refused_ = 0;
};

// Wraps a drafter, and counts the seconds of its draft phases. Drafts for one request per call.
class TimedDrafter final : public ForwardingDrafter {
 public:
  using ForwardingDrafter::ForwardingDrafter;

  void draft(std::span<const DraftRequest> requests) override {
    SPECDEC_CHECK(requests.size() == 1, "one request, not {}", requests.size());
    DraftRequest request = requests.front();
    caught_up_ = length(request.sequence) + 2 < std::ssize(request.context);
    gate_.stands_for(request.sampling.gate);
    if (request.sampling.gate != nullptr) request.sampling.gate = &gate_;
    const Stopwatch watch(seconds_);
    ForwardingDrafter::draft(std::span(&request, 1));
  }

  double seconds() const { return seconds_; }    // total of all draft phases so far
  bool caught_up() const { return caught_up_; }  // the last one had to feed more than two tokens
  std::int64_t refused() const { return gate_.refused(); }  // drafts that gates refused so far

 private:
  CountedGate gate_;
  double seconds_ = 0;
  bool caught_up_ = false;
};

// Times the rounds of one request, through wrappers of both models.
class RoundClock {
 public:
  // REQUIRES: both outlive this object.
  RoundClock(LanguageModel& target, Drafter& drafter) : target_(target), drafter_(drafter) {}

  LanguageModel& target() { return target_; }
  Drafter& drafter() { return drafter_; }

  void begin() {
    seconds_of_drafts_ = drafter_.seconds();
    seconds_of_passes_ = target_.seconds();
    began_ = Stopwatch::now();
  }
  // Adds the round's seconds to stats, and sets the drafter's counters there.
  void end(const Round& round, RunStats& stats) const {
    stats.decode_seconds += Stopwatch::seconds_since(began_);
    const double drafting = drafter_.seconds() - seconds_of_drafts_;
    stats.draft_seconds += drafting;
    stats.verify_seconds += target_.seconds() - seconds_of_passes_;
    stats.draft_forwards = drafter_.forwards();
    stats.refused = drafter_.refused();
    if (round.drafted == 0 || !drafter_.caught_up()) return;
    stats.catch_up_seconds += drafting;
    stats.catch_up_drafted += round.drafted;
  }

 private:
  TimedModel target_;
  TimedDrafter drafter_;
  Stopwatch::Time began_ = {};
  double seconds_of_drafts_ = 0, seconds_of_passes_ = 0;  // totals at the start of the round
};

}  // namespace specdec
