#pragma once
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "common/sampling/bad_logits.h"
#include "common/speculation/forwarding_drafter.h"
#include "kernels/int_size.h"

namespace specdec {

// Wraps a drafter whose model may be damaged. Where the wrapped drafter throws BadLogits, this one
// ends the request's drafts before the position that has no distribution. So damage costs speed,
// but no text changes and no request fails. Drawing the tokens from elsewhere would not be
// lossless, because whether a position is damaged may depend on the tokens before it. Where drafts
// end depends on the request's text alone, not on the batch.
class SoundDrafter final : public ForwardingDrafter {
 public:
  using Tell = std::function<void(const BadLogits& damage)>;  // called for the first damage only

  SoundDrafter(std::shared_ptr<Drafter> drafter, Tell tell)
      : ForwardingDrafter(*drafter), drafter_(std::move(drafter)), tell_(std::move(tell)) {}

  // Drafts for all requests together until the first damage, then for one request at a time.
  void draft(std::span<const DraftRequest> requests) override {
    if (!damaged_ && requests.size() > 1) {
      try {
        return ForwardingDrafter::draft(requests);
      } catch (const BadLogits& damage) {
        tell(damage);
        for (const DraftRequest& request : requests) take_back(request);
      }
    }
    for (const DraftRequest& request : requests) {
      try {
        ForwardingDrafter::draft(std::span(&request, 1));
      } catch (const BadLogits& damage) {
        tell(damage);
      }
    }
  }

 private:
  // Rolls the drafter back to the context, so that it can draft for this request again.
  void take_back(const DraftRequest& request) {
    truncate(request.sequence, int_size(request.context) - 1);
  }
  void tell(const BadLogits& damage) {
    if (!std::exchange(damaged_, true)) tell_(damage);
  }

  std::shared_ptr<Drafter> drafter_;
  Tell tell_;
  bool damaged_ = false;
};

}  // namespace specdec
