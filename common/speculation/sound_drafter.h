#pragma once
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "common/sampling/bad_logits.h"
#include "common/speculation/drafter.h"

namespace specdec {

// What is done about a draft model that is damaged, for chains and for trees: the drafts of a
// request end before the first place where the model has no distribution, and a drafter by itself
// throws BadLogits. So damage costs speed, and neither a text nor a request. Where drafts end
// depends on the request's text alone, and not on the batch.
class DamageControl {
 public:
  using Tell = std::function<void(const BadLogits& damage)>;  // is called the first time
  explicit DamageControl(Tell tell) : tell_(std::move(tell)) {}

  // Side by side as long as all goes well, from then on one request after the other.
  // end_early(request): after its drafts threw BadLogits.
  template <typename AnyDrafter, typename Request, typename EndEarly>
  void draft(AnyDrafter& drafter, std::span<const Request> requests, const EndEarly& end_early) {
    if (!damaged_ && requests.size() > 1) {
      try {
        return drafter.draft(requests);
      } catch (const BadLogits& damage) {
        tell(damage);
        for (const Request& request : requests) take_back(drafter, request);
      }
    }
    for (const Request& request : requests) {
      try {
        drafter.draft(std::span(&request, 1));
      } catch (const BadLogits& damage) {
        tell(damage);
        end_early(request);
      }
    }
  }

  // Drafts may be made again then.
  template <typename AnyDrafter, typename Request>
  static void take_back(AnyDrafter& drafter, const Request& request) {
    drafter.truncate(request.sequence, static_cast<int>(request.context.size()) - 1);
  }

 private:
  void tell(const BadLogits& damage) {
    if (!std::exchange(damaged_, true)) tell_(damage);
  }

  Tell tell_;
  bool damaged_ = false;
};

// A drafter under damage control. The drafts before the damaged place stay. Drawing others instead
// would not be lossless: whether a place is damaged may depend on the tokens before it.
class SoundDrafter final : public Drafter {
 public:
  SoundDrafter(std::shared_ptr<Drafter> drafter, DamageControl::Tell tell)
      : drafter_(std::move(drafter)), control_(std::move(tell)) {}

  SequenceId create() override { return drafter_->create(); }
  void release(SequenceId sequence) override { drafter_->release(sequence); }
  void draft(std::span<const DraftRequest> requests) override {
    control_.draft(*drafter_, requests, [](const DraftRequest&) {});
  }
  void truncate(SequenceId sequence, int length) override { drafter_->truncate(sequence, length); }
  int length(SequenceId sequence) const override { return drafter_->length(sequence); }
  int context_limit() const override { return drafter_->context_limit(); }
  std::int64_t forwards() const override { return drafter_->forwards(); }

 private:
  std::shared_ptr<Drafter> drafter_;
  DamageControl control_;
};

}  // namespace specdec
