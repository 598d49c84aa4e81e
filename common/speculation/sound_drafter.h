#pragma once
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "common/sampling/bad_logits.h"
#include "common/speculation/drafter.h"
#include "kernels/int_size.h"

namespace specdec {

// A drafter whose model may be damaged: the drafts of a request end before the first place where
// the model has no distribution, where the drafter by itself throws BadLogits. So damage costs
// speed, and neither a text nor a request. Drawing others instead would not be lossless: whether a
// place is damaged may depend on the tokens before it. Where drafts end depends on the request's
// text alone, and not on the batch.
class SoundDrafter final : public Drafter {
 public:
  using Tell = std::function<void(const BadLogits& damage)>;  // is called the first time

  SoundDrafter(std::shared_ptr<Drafter> drafter, Tell tell)
      : drafter_(std::move(drafter)), tell_(std::move(tell)) {}

  SequenceId create() override { return drafter_->create(); }
  void release(SequenceId sequence) override { drafter_->release(sequence); }
  // Side by side as long as all goes well, from then on one request after the other.
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
  void truncate(SequenceId sequence, int length) override { drafter_->truncate(sequence, length); }
  int length(SequenceId sequence) const override { return drafter_->length(sequence); }
  int context_limit() const override { return drafter_->context_limit(); }
  std::int64_t forwards() const override { return drafter_->forwards(); }
  Capacity capacity(int spec_length) const override { return drafter_->capacity(spec_length); }
  void keep(SequenceId sequence, int length, std::span<const int> path) override {
    drafter_->keep(sequence, length, path);
  }

 private:
  // Drafts may be made again then.
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
