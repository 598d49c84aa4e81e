#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "common/speculation/round.h"
#include "stages/06_batched_verification/batch_request.h"

namespace specdec {

// What a step of an engine did, for people, traces and tests.
struct StepReport {
  struct Part {
    RequestId id = 0;
    int prefilled = 0;  // tokens of its prompt; 0: it had a round
    int rows = 0;       // of the target's pass
    Round round = {};
    int emitted = 0;
    int length = 0;  // cached in the target afterwards; 0 where it is finished
  };

  struct Admission {
    RequestId id = 0;
    int found = 0;  // tokens of its context, in the prefix cache
  };

  std::int64_t step = 0;         // 1, 2, ...
  std::vector<Part> parts = {};  // rounds, then prefills; oldest first
  std::vector<Admission> admitted = {};
  std::vector<RequestId> preempted = {}, finished = {};
  bool given_up = false;  // a cache was full against all plans: nothing was computed

  // After the step.
  int waiting = 0, prefilling = 0, running = 0;
  int pages = 0, draft_pages = 0;            // in use, by sequences and prefix caches
  int most_pages = 0, most_draft_pages = 0;  // before the rollback

  // Seconds of the engine's clock, at the ends of its phases.
  double started = 0, drafted = 0, verified = 0, ended = 0;

  int rounds() const;
  int emitted() const;
  int rows() const;  // of the target's pass
};

// A line, for instance "step 3: admit 2 (8 found); 0 keeps 1 of 3 [11], 1 steps [5], 2 prefills 1
// [9]; 6 rows; ...": how much each request found, kept and computed, and in brackets how much of it
// the target has cached afterwards.
std::string to_text(const StepReport& report);

}  // namespace specdec
