#pragma once
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "common/sampling/bad_logits.h"
#include "common/speculation/drafter.h"
#include "kernels/int_size.h"

namespace specdec {

// Wraps a drafter whose model may be damaged. Where the wrapped drafter throws BadLogits, this one
// ends the request's drafts before the position that has no distribution. So damage costs speed,
// but no text changes and no request fails. Drawing the tokens from elsewhere would not be
// lossless, because whether a position is damaged may depend on the tokens before it. Where drafts
// end depends on the request's text alone, not on the batch.
class SoundDrafter final : public Drafter {
 public:
  using Tell = std::function<void(const BadLogits& damage)>;  // called for the first damage only

  SoundDrafter(std::shared_ptr<Drafter> drafter, Tell tell)
      : drafter_(std::move(drafter)), tell_(std::move(tell)) {}

  SequenceId create() override { return drafter_->create(); }
  void release(SequenceId sequence) override { drafter_->release(sequence); }
  // Drafts for all requests together until the first damage, then for one request at a time.
  void draft(std::span<const DraftRequest> requests) override {
    if (!damaged_ && requests.size() > 1) {
      try {
        return drafter_->draft(requests);
      } catch (const BadLogits& damage) {
        tell(damage);
        for (const DraftRequest& request : requests) take_back(request);
      }
    }
    for (const DraftRequest& request : requests) {
      try {
        drafter_->draft(std::span(&request, 1));
      } catch (const BadLogits& damage) {
        tell(damage);
      }
    }
  }
  void prefill(std::span<const Segment> chunks) override { drafter_->prefill(chunks); }
  int uncached_before(SequenceId sequence, int end) const override {
    return drafter_->uncached_before(sequence, end);
  }
  void truncate(SequenceId sequence, int length) override { drafter_->truncate(sequence, length); }
  int length(SequenceId sequence) const override { return drafter_->length(sequence); }
  int context_limit() const override { return drafter_->context_limit(); }
  std::int64_t forwards() const override { return drafter_->forwards(); }
  Capacity capacity(int spec_length) const override { return drafter_->capacity(spec_length); }
  void keep(SequenceId sequence, int length, std::span<const int> path) override {
    drafter_->keep(sequence, length, path);
  }

 private:
  // Rolls the drafter back to the context, so that it can draft for this request again.
  void take_back(const DraftRequest& request) {
    drafter_->truncate(request.sequence, int_size(request.context) - 1);
  }
  void tell(const BadLogits& damage) {
    if (!std::exchange(damaged_, true)) tell_(damage);
  }

  std::shared_ptr<Drafter> drafter_;
  Tell tell_;
  bool damaged_ = false;
};

}  // namespace specdec
