#pragma once
#include <span>
#include <vector>

#include "common/base/json_value.h"
#include "stages/05_rejection_sampling/judge.h"
#include "stages/programs/show/report_extras.h"
#include "stages/programs/speculation/session.h"

namespace specdec {

// A draft at one position of a text, made from the text before it.
struct TriedPlace {
  double acceptance = 0;  // the probability of acceptance, sum min(p, q); at temperature 0 it is 0
                          // or 1; 0 without a draft
  bool accepted = false;  // whether the uniform of this position accepts this draft
};

// Tries a draft at every position of a run's text (as Leviathan et al. do for their Table 3).
// Rounds test few of the positions after a rejection, so their alpha is not that of all positions.
// Leaves the caches as they were. REQUIRES: a finished run, whose drafts are in host memory.
std::vector<TriedPlace> try_all_places(Session& run, const Judge& judge);

// A run by an oracle, which knows beforehand which drafts will be accepted, and drafts no others
// (section 3.5).
struct OracleRun {
  int emitted = 0, drafted = 0;
  std::vector<int> rounds;  // [largest + 1] the number of rounds with each K

  int target_forwards() const;
  // The speedup over plain decoding. round_costs: [largest + 1] in plain steps.
  double speedup(std::span<const double> round_costs) const;
};

// largest: the most drafts of a round.
OracleRun oracle_run(std::span<const TriedPlace> places, int largest);

// Adds the tried positions and the oracle's run to a report. round_costs: empty if unknown.
void add_all_places(ReportExtras& extras, std::span<const TriedPlace> places, int largest,
                    std::span<const double> round_costs);

}  // namespace specdec
