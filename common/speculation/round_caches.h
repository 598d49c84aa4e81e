#pragma once
#include "common/language_model.h"
#include "common/speculation/drafter.h"

namespace specdec {

// Both caches of a request.
struct RoundCaches {
  LanguageModel& target;
  SequenceId sequence = 0;  // of the target
  Drafter& drafter;
  SequenceId draft_sequence = 0;  // of the drafter
};

}  // namespace specdec
