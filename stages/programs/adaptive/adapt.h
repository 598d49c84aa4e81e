#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "stages/07_adaptive_drafting/adaptive_spec_length.h"
#include "stages/07_adaptive_drafting/batch_budget.h"
#include "stages/07_adaptive_drafting/survival_model.h"
#include "stages/07_adaptive_drafting/while_it_pays.h"
#include "stages/programs/adaptive/cost_profile.h"
#include "stages/programs/adaptive/drafters.h"
#include "stages/programs/adaptive/survival_counts.h"
#include "stages/programs/batch/batch_session.h"
#include "stages/programs/batch/queue_inbox.h"
#include "stages/programs/serve/serve_run.h"
#include "stages/programs/speculation/session.h"

namespace specdec {

// The policy of --draft-length. K is at most `largest`, and at most what the profile has costs for.
// Every policy but gain pauses drafting while it is a loss. counts: receives those of a policy that
// asks the draft; may be null. REQUIRES: --draft-length is not fixed.
std::unique_ptr<SpecLengthPolicy> make_policy(const RunOptions& options, int largest,
                                              const CostProfile& profile,
                                              const std::shared_ptr<SurvivalCounts>& counts,
                                              const RoundCapacity& capacity = Capacity::of_chain);

// How K is chosen in a run with one request. The costs of rounds are loaded or measured before the
// first round.
class AdaptiveRun {
 public:
  // Throws Error for --rows, which needs a batch. REQUIRES: this object and the options outlive the
  // Session.
  SessionParts parts(const RunOptions& options, const Drafting& drafting,
                     const RoundCapacity& capacity = Capacity::of_chain);

  // With --ngram-fill, lets the drafter learn the target's likeliest tokens.
  static void take_notes(const Session& run, RoundJudge& judge);
  // Prints the costs on stderr, unless --quiet or JSON output is given.
  void announce(const Session& run) const;
  // The report's part about costs and K; empty for a fixed K.
  ReportExtras extras(const Session& run) const;
  // With --all-places, tries a draft at every position and adds the result to the report.
  void try_places(Session& run, const Judge& judge, ReportExtras& extras) const;
  // Makes the report's line about the speedup of two levels by formula. Call before extras().
  std::function<std::string(const Speedup&)> of_speedup(const Session& run) const {
    return two_levels_by_formula(run.options, levels_, run.stats);
  }

 private:
  std::unique_ptr<SpecLengthPolicy> make_policy(const Session& run);

  RoundCapacity capacity_ = Capacity::of_chain;
  std::optional<CostProfile> profile_;  // none: K is fixed
  std::shared_ptr<SurvivalCounts> counts_ = std::make_shared<SurvivalCounts>();
  Levels levels_;  // of --draft-of-draft
};

// Stage 5's evidence, with the quantities that the policy looked at.
RoundEvidence adaptive_evidence(const Session& run, const Judge& judge);

// The drafting and judging parts of a batch. Throws Error if --draft-pages is given with several
// drafters. REQUIRES: the options outlive the session.
BatchParts adaptive_parts(const RunOptions& options, const Drafting& drafting);

// Chooses how K adapts for each request of a batch. The costs are those of a full batch. So the
// costs, and with them the texts, do not depend on which requests run at the same time.
class AdaptiveBatch {
 public:
  // Makes requests as `make` does, with a policy if K adapts. REQUIRES: this object and the session
  // outlive the requests, and they reach an engine after begin().
  MakeBatchRequest make_request(const MakeBatchRequest& make = to_batch_request);
  // The same for requests that are not known in advance. usual: those of a request that leaves all
  // options out. K is fixed or chosen as usual: another way might need costs, or the draft model's
  // distributions. Throws Error as `make`.
  MakeBatchRequest make_any_request(const ModelFiles& target, const RunOptions& usual,
                                    const MakeBatchRequest& make = to_batch_request);
  // The parts of a batch whose drafts share a budget of rows, with --rows; otherwise as they are.
  // REQUIRES: this object outlives the session.
  BatchParts within_budget(BatchParts parts, const RunOptions& options);
  // Whether any request's way to choose K needs the draft model's distributions.
  bool asks_the_draft() const { return asks_the_draft_; }
  // Call when all requests are made. Loads or measures the costs of rounds if any K adapts.
  // capacity: of the rounds of requests that have none of their own.
  void begin(BatchSession& session, const RoundCapacity& capacity = Capacity::of_chain);
  // Adds what came true of the estimates in all requests, but for the round that ended each, and
  // what became of the budget. Call after the last step.
  void add_to(BatchSession& session) const;

 private:
  void check_rows(const RunOptions& options, const BatchRequest& request);
  std::unique_ptr<SpecLengthPolicy> policy_of(const RunOptions& options, int K,
                                              const RoundCapacity& capacity) const;

  std::optional<RunOptions> first_;  // of the requests whose K adapts
  bool asks_the_draft_ = false, counts_estimates_ = false;
  std::set<std::uint64_t> seeds_;            // of requests whose texts depend on each other
  std::shared_ptr<BatchBudget> budget_;      // of the session; null: none
  std::shared_ptr<SurvivalModel> survival_;  // of all requests with a budget and a fixed K
  std::optional<CostProfile> profile_;
  std::shared_ptr<SurvivalCounts> counts_ = std::make_shared<SurvivalCounts>();
  RoundCapacity capacity_;
  const DraftSetup* draft_ = nullptr;  // of the session
};

// The run of stage 7 with --serve.
int serve_adaptive(const RunOptions& options);

}  // namespace specdec
