// Stage 7: adaptive drafting. The costs of a round and the recent acceptance rate determine K, for
// one request or for a batch.

#include <utility>

#include "stages/05_rejection_sampling/rejection_sampling.h"
#include "stages/07_adaptive_drafting/adaptive_round.h"
#include "stages/programs/adaptive/adapt.h"
#include "stages/programs/adaptive/adaptive_check.h"
#include "stages/programs/adaptive/drafters.h"
#include "stages/programs/batch/batch_report.h"
#include "stages/programs/batch/queue_inbox.h"
#include "stages/programs/run/draft_length.h"
#include "stages/programs/run/stage_main.h"
#include "stages/programs/sampling/speculation_options.h"

namespace specdec {
namespace {

void decode(Session& run, Judge& judge) {
  run.prefill();
  while (!run.generation.finished()) {
    run.before_round();
    const Round round = adaptive_round(run.steps, judge, run.context, run.generation);
    run.after_round(round, adaptive_evidence(run, judge));
  }
}

int run_one(const RunOptions& options, const SpeculationOptions& speculation) {
  AdaptiveRun adaptive;
  const KeepProbs keep = options.all_places ? KeepProbs::kOnHost : keep_probs(options, speculation);
  const bool gated = entry_of(options.draft_length).asks_the_draft;
  Session session(options, adaptive.parts(options, adaptive_drafting(keep, gated)));
  adaptive.announce(session);
  Dice dice(options.seed);
  const auto judge = make_judge(session.steps, dice, speculation, overlaps_for(options));
  AdaptiveRun::take_notes(session, *judge);
  decode(session, *judge);
  const auto of_speedup = adaptive.of_speedup(session);
  ReportExtras extras = adaptive.extras(session);
  adaptive.try_places(session, *judge, extras);
  session.finish(judgement(session, *judge), std::move(extras), of_speedup);
  return kGood;
}

int run_many(const RunOptions& options) {
  ModelFiles files = open_model(options.target);
  AdaptiveBatch adaptive;
  QueueInbox inbox(options, files, adaptive.make_request());
  const Drafting drafting = adaptive_drafting(KeepProbs::kBesideLogits, adaptive.asks_the_draft());
  const BatchParts parts = adaptive.within_budget(adaptive_parts(options, drafting), options);
  BatchSession session(sized_for(inbox.requests(), options), std::move(files), parts);
  adaptive.begin(session);
  BatchReport report(session, inbox.requests());
  report.begin();
  inbox.report_to(report);
  serve(session.engine, inbox);
  adaptive.add_to(session);
  return report.finish();
}

int run(const RunOptions& given) {
  check_draft_length(given);
  const RunOptions options = with_base_kind(given);
  const SpeculationOptions speculation = speculation_options(options);
  check_speculation_options(speculation);
  if (options.check) return check_adaptive_drafting(options);
  if (!options.serve.empty()) return serve_adaptive(options);
  return options.has_many_requests() ? run_many(options) : run_one(options, speculation);
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  return specdec::stage_main(7, "Adaptive drafting: as many drafts as pay.", argc, argv,
                             specdec::run, specdec::sampling_listings());
}
