#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/run_stats.h"
#include "stages/05_rejection_sampling/judge.h"
#include "stages/07_adaptive_drafting/speculating_drafter.h"
#include "stages/programs/run/options.h"
#include "stages/programs/show/report_extras.h"
#include "stages/programs/speculation/draft_setup.h"
#include "stages/programs/speculation/speedup.h"

namespace specdec {

// One drafter of a composition, with everything that it uses.
struct DraftPart {
  RunOptions options;
  std::unique_ptr<DraftSetup> setup;
  std::shared_ptr<Drafter> inner;  // the drafter's own drafter; null if it has none
};

// Sets up a drafter for the target of `base`, with memory of its own.
std::shared_ptr<DraftPart> make_part(RunOptions options, const DraftSetup& base,
                                     const Capacity& capacity, const Drafting& drafting);

// The drafters of stage 7: that of --draft-kind, or those of --fallback and --draft-of-draft.

// The options with the draft_kind of the base drafter. With --fallback, that is the kind that needs
// more, the second one among equals. Throws Error for kinds that do not go together, for a draft
// model that would be its own draft model, and for options of a drafter that does not draft.
RunOptions with_base_kind(RunOptions options);

// Throws Error if --ngram-fill is larger than the target's vocabulary.
void check_notes(const RunOptions& options, const LanguageModel& target);

// The drafter of --draft-kind ngram or suffix.
std::unique_ptr<Drafter> make_learning_drafter(const RunOptions& options, const ModelFiles& files);

// That of --draft-kind suffix. nodes: of its trees; 0: it drafts chains.
std::unique_ptr<Drafter> make_suffix_drafter(const RunOptions& options, const ModelFiles& files,
                                             int nodes = 0);

// Throws Error if the request's text depends on its drafts or their number, which with this option
// depend on the other requests: above temperature 0, unless the rule emits the target's own token
// at each place; with lenience, always. with, otherwise: the option, and what else could be done.
void check_text_is_its_own(const SpeculationOptions& speculation, std::string_view with,
                           std::string_view otherwise);

// Stage 5's drafting, with the drafters that learn from texts. gated: a gate may end the drafts.
Drafting adaptive_drafting(KeepProbs keep, bool gated);

// The drafters of --draft-of-draft; the first one drafts for the target.
using Levels = std::vector<const SpeculatingDrafter*>;

// Composes the drafters of --fallback and --draft-of-draft; empty if the options name one drafter.
// drafting: of all parts but drafts of drafts, which are chains on the host. levels: receives the
// drafters of --draft-of-draft, unless null. REQUIRES: options are from with_base_kind(); options
// and levels outlive the drafters.
ComposeDrafter composition(const RunOptions& options, const Drafting& drafting,
                           Levels* levels = nullptr);

// Adds the composition and the counts of its levels to a report. stats: of the run.
void add_drafters(ReportExtras& extras, const RunOptions& options, const Levels& levels,
                  const RunStats& stats);

// The speedup over plain decoding by the formula for two levels, from both alphas of the run, the k
// of its inner rounds, the K of each round, and the costs of drafts and passes. c contains the cost
// of inner drafts, so c2 is 0. Unknown if nothing was tested.
double two_level_speedup(const SpeculatingDrafter::Counts& inner, int k, const RunStats& stats,
                         const Speedup& speedup);

// Makes the report's line with two_level_speedup(); the line is empty if the speedup is unknown.
// Returns no function without two levels. Ignores what the levels do after this call, when costs
// are measured.
std::function<std::string(const Speedup&)> two_levels_by_formula(const RunOptions& options,
                                                                 const Levels& levels,
                                                                 const RunStats& stats);

}  // namespace specdec
