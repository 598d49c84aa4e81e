#pragma once
#include <span>

#include "common/kv_cache.h"
#include "stages/06_batched_verification/request_state.h"

namespace specdec {

// Where drafting for requests side by side threw an Error, and it was taken back: drafts for one
// after the other, so that an Error fails the request that caused it. Draws have no order, so what
// is drafted a second time is the same. whose[i]: the engine's request that requests[i] is of.
template <typename AnyRequest, typename AnyDrafter>
void draft_one_by_one(AnyDrafter& drafter, std::span<const AnyRequest> requests,
                      std::span<RequestState* const> whose) {
  for (std::size_t i = 0; i < requests.size(); i++) {
    try {
      drafter.draft(requests.subspan(i, 1));
    } catch (const CacheFull&) {
      throw;
    } catch (const Error& error) {
      whose[i]->failure = error.what();
    }
  }
}

}  // namespace specdec
