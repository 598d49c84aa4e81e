#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "stages/07_adaptive_drafting/adaptive_spec_length.h"
#include "stages/07_adaptive_drafting/while_it_pays.h"
#include "stages/programs/adaptive/cost_profile.h"
#include "stages/programs/adaptive/drafters.h"
#include "stages/programs/batch/batch_session.h"
#include "stages/programs/speculation/session.h"

namespace specdec {

// Whether a way to choose K asks about the draft model's distributions.
bool asks_the_draft(DraftLength how);

// What --draft-length asks for, but fixed: up to `largest` drafts, or fewer where the profile ends
// sooner. All but gain pause while they are a loss.
std::unique_ptr<SpecLengthPolicy> make_policy(const RunOptions& options, int largest,
                                              const CostProfile& profile,
                                              const RoundCapacity& capacity = Capacity::of_chain);

// How K is chosen in a run of one request: the costs of rounds are loaded or measured before the
// first one.
class AdaptiveRun {
 public:
  // REQUIRES: this object and the options outlive the Session.
  SessionParts parts(const RunOptions& options, const Drafting& drafting,
                     const RoundCapacity& capacity = Capacity::of_chain);

  // Lets the judge's drafts learn from the target's rows, with --ngram-fill.
  static void take_notes(const Session& run, RoundJudge& judge);
  // Says on stderr what costs were found, unless --quiet or JSON asks for silence.
  void announce(const Session& run) const;
  // What the report says about costs and K; nothing for a fixed K.
  ReportExtras extras(const Session& run) const;
  // With --all-places, tries all of them, and adds what came of it.
  void try_places(Session& run, const Judge& judge, ReportExtras& extras) const;
  // And about the speedup, by the formula for two levels. To be called before extras().
  std::function<std::string(const Speedup&)> of_speedup(const Session& run) const {
    return two_levels_by_formula(run.options, levels_, run.stats);
  }

 private:
  std::unique_ptr<SpecLengthPolicy> make_policy(const Session& run);

  RoundCapacity capacity_ = Capacity::of_chain;
  std::optional<CostProfile> profile_;  // none: K is fixed
  Levels levels_;                       // of --draft-of-draft
};

// As stage 5's evidence, with what the policy looked at.
RoundEvidence adaptive_evidence(const Session& run, const Judge& judge);

// Whether any request's way to choose K asks about the draft model's distributions.
bool asks_the_draft(std::span<const QueuedRequest> queue);

// How requests are drafted for. Throws Error where --draft-pages is given for several drafters.
// REQUIRES: the options outlive the session.
BatchParts adaptive_parts(const RunOptions& options, const Drafting& drafting);

// The same for a batch: costs are those of a full batch. How many requests there are in all is
// known beforehand, so costs, and with them texts, do not depend on which requests run side by
// side.
void adapt_requests(BatchSession& session, const RoundCapacity& capacity = Capacity::of_chain);

}  // namespace specdec
