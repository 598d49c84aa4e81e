#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "common/speculation/round.h"
#include "stages/06_batched_verification/batch_request.h"

namespace specdec {

// What one step of an engine did, for reports, traces and tests.
struct StepReport {
  struct Part {
    RequestId id = 0;
    int prefilled = 0, draft_prefilled = 0;  // tokens of its context, by target and draft model
    int rows = 0;                            // its rows in the target's pass
    Round round = {};
    int emitted = 0;
    int length = 0;  // tokens cached in the target after the step; 0 if the request is finished

    bool is_round() const { return prefilled == 0 && draft_prefilled == 0; }
  };

  struct Admission {
    RequestId id = 0;
    int found = 0;  // tokens of its context that were in the prefix cache
  };

  std::int64_t step = 0;         // 1, 2, ...
  std::vector<Part> parts = {};  // rounds, then prefills; oldest first
  std::vector<Admission> admitted = {};
  std::vector<RequestId> preempted = {}, finished = {};
  bool given_up = false;  // a cache was full despite the plan: nothing was verified

  int waiting = 0, prefilling = 0, running = 0;  // requests after the step
  int pages = 0, draft_pages = 0;            // in use by sequences and prefix caches after the step
  int most_pages = 0, most_draft_pages = 0;  // in use before the rollback

  // Times on the engine's clock, in seconds: the start, and the end of each phase.
  double started = 0, drafted = 0, verified = 0, ended = 0;

  int rounds() const;
  int emitted() const;
  int rows() const;  // rows of the target's pass
};

// One line, for instance "step 3: admit 2 (8 found); 0 keeps 1 of 3 [11], 1 steps [5], 2 prefills 1
// [9]; 6 rows; ...": the tokens that each request found in the prefix cache, the drafts that it
// accepted, the tokens that it prefilled (and that the draft model did, if the number differs), and
// in brackets its cached tokens after the step.
std::string to_text(const StepReport& report);

}  // namespace specdec
