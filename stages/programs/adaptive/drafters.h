#pragma once
#include <functional>
#include <string>
#include <vector>

#include "common/run_stats.h"
#include "stages/07_adaptive_drafting/speculating_drafter.h"
#include "stages/programs/run/options.h"
#include "stages/programs/show/report_extras.h"
#include "stages/programs/speculation/draft_setup.h"
#include "stages/programs/speculation/speedup.h"

namespace specdec {

// Who drafts in stage 7: --draft-kind's drafter, or that of --fallback and --draft-of-draft.

// The options with the draft_kind on which the parts of --fallback stand: the part with a model,
// the second one among equals. Throws Error for parts that do not go together, or a draft that
// would be its own draft, or --ngram-fill without n-grams.
RunOptions with_base_kind(RunOptions options);

// Throws Error where --ngram-fill is above 0 and this target's likely tokens cannot be noted.
void check_notes(const RunOptions& options, const LanguageModel& target);

// Drafts that a gate may end, and --draft-kind ngram.
Drafting adaptive_drafting(KeepProbs keep, bool gated);

// The drafts of drafts in a composition, the one that drafts for the target first.
using Levels = std::vector<const SpeculatingDrafter*>;

// None where the options ask for one drafter. drafting: of the parts, but for drafts of drafts,
// which are chains on the host. levels: gets those of what is made, unless null.
// REQUIRES: options as of with_base_kind(); options and levels outlive what is made.
ComposeDrafter composition(const RunOptions& options, const Drafting& drafting,
                           Levels* levels = nullptr);

// What was composed, for a report, and what its levels did; stats: of the run.
void add_drafters(ReportExtras& extras, const RunOptions& options, const Levels& levels,
                  const RunStats& stats);

// The speedup over plain decoding by the formula for two levels: from both alphas of the run, the k
// of its inner rounds, the K of each round, and what drafts and passes cost. What the inner drafts
// cost is part of c, so c2 is 0. Unknown where nothing was tested.
double two_level_speedup(const SpeculatingDrafter::Counts& inner, int k, const RunStats& stats,
                         const Speedup& speedup);

// Makes that a line of the report, empty where it is unknown; none without two levels. What the
// levels do after this call, when costs are measured, does not count.
std::function<std::string(const Speedup&)> two_levels_by_formula(const RunOptions& options,
                                                                 const Levels& levels,
                                                                 const RunStats& stats);

}  // namespace specdec
