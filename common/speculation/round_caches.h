#pragma once
#include "common/language_model.h"
#include "common/speculation/drafter.h"

namespace specdec {

// The caches of the target and of the drafter, and one request's sequence in each.
struct RoundCaches {
  LanguageModel& target;
  SequenceId sequence = 0;  // in the target
  Drafter& drafter;
  SequenceId draft_sequence = 0;  // in the drafter
};

}  // namespace specdec
