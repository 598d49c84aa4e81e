#pragma once
#include <span>
#include <vector>

#include "common/base/json_value.h"
#include "stages/05_rejection_sampling/judge.h"
#include "stages/programs/show/report_extras.h"
#include "stages/programs/speculation/session.h"

namespace specdec {

// A draft at one place of a text, tried after the text before it.
struct TriedPlace {
  double acceptance = 0;  // with which probability it is accepted: sum min(p, q); at temperature 0
                          // 0 or 1, and 0 without a draft
  bool accepted = false;  // whether this draft is, with the uniform of its position
};

// Tries a draft at every place of a run's text (as Leviathan et al. do for their Table 3): rounds
// test few of the places that follow a rejection's, and so their alpha is not of all places.
// Leaves the caches as they were. REQUIRES: a finished run, whose drafts are in host memory.
std::vector<TriedPlace> try_all_places(Session& run, const Judge& judge);

// What a run would have been that knew beforehand which drafts will be accepted, and drafted no
// others (section 3.5).
struct OracleRun {
  int emitted = 0, drafted = 0;
  std::vector<int> rounds;  // [largest + 1] by K

  int target_forwards() const;
  // How much faster than plain decoding. round_costs: [largest + 1] in plain steps.
  double speedup(std::span<const double> round_costs) const;
};

// largest: the most drafts of a round.
OracleRun oracle_run(std::span<const TriedPlace> places, int largest);

// Adds both to a report. round_costs: empty where they are not known.
void add_all_places(ReportExtras& extras, std::span<const TriedPlace> places, int largest,
                    std::span<const double> round_costs);

}  // namespace specdec
