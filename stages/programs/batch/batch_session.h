#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stages/06_batched_verification/batch_engine.h"
#include "stages/programs/batch/memory_plan.h"
#include "stages/programs/run/options.h"
#include "stages/programs/run/request.h"
#include "stages/programs/sampling/speculation_options.h"
#include "stages/programs/show/report_extras.h"
#include "stages/programs/speculation/draft_setup.h"
#include "stages/programs/speculation/target_setup.h"

namespace specdec {

struct BatchSession;

// Judging by the requests' own judges on the host, or on the GPU that keeps the distributions.
Judging batch_judging(const BatchSession& session);
// The same as `judging`, but on the GPU. siblings: as for DeviceJudge.
Judging judging_on_device(Judging judging, const BatchSession& session,
                          std::optional<TreeRule> siblings = {});

// The parts of a session that differ between the stages.
struct BatchParts {
  Drafting drafting = sampled_drafting(KeepProbs::kBesideLogits);
  ComposeDrafter compose = {};  // its drafter has memory for all requests from the beginning
  RoundCapacity capacity = Capacity::of_chain;
  std::function<Judging(const BatchSession&)> judging = batch_judging;
  std::string announcement = {};
  // Rounds of another kind; none: those of the engine.
  std::function<decltype(ServedModels::make_rounds)(BatchSession&)> make_rounds = {};
};

// The engine for a run of many requests, set up from the command line, with its models, caches and
// drafter. The options determine all sizes; the requests are not known yet.
struct BatchSession {
  // Throws Error for bad options and files. Warns on stderr if the draft cannot make decoding
  // faster.
  BatchSession(const RunOptions& options, ModelFiles files, const BatchParts& parts = {});

  const RunOptions options;
  ModelFiles files;
  BatchSizes sizes;
  TargetSetup target;
  DraftSetup draft;
  std::unique_ptr<TargetRows> watched;  // the target as a drafter watches it; null: none does
  MemoryPlan memory;
  BatchEngine engine;
  std::string announcement;  // a later stage's message before the first step: lines, or nothing
  ReportExtras extras;       // a later stage's additions to the summary
  // The same for the report of each request: fields, and lines that follow its text. May be none.
  std::function<ReportExtras(const BatchRequest&, const RequestResult&)> extras_of = {};
};

}  // namespace specdec
