#pragma once
#include <algorithm>

#include "stages/04_greedy_speculation/draft_and_verify.h"

namespace specdec {

// Stage 4's parts of a round, for drafts that may branch: trees of at most K levels, or of as many
// as the drafter has. device: of the drafts' distributions.
inline DraftAndVerify tree_steps(LanguageModel& target, Drafter& drafter, int K, int context_limit,
                                 Backend* device = nullptr) {
  const Capacity capacity = drafter.capacity(K);
  return DraftAndVerify(target, drafter, fixed_spec_length(std::min(K, capacity.levels)),
                        context_limit, Drafts(capacity, target.vocab_size(), device));
}

}  // namespace specdec
