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

// The requests' own judges, or one on the GPU.
Judging batch_judging(const BatchSession& session);
// As `judging`, on the GPU. siblings: as for DeviceJudge.
Judging judging_on_device(Judging judging, const BatchSession& session,
                          std::optional<TreeRule> siblings = {});

// What differs between the stages that serve batches.
struct BatchParts {
  Drafting drafting = sampled_drafting(KeepProbs::kBesideLogits);
  ComposeDrafter compose = {};  // what it makes has memory for every request from the beginning
  RoundCapacity capacity = Capacity::of_chain;
  std::function<Judging(const BatchSession&)> judging = batch_judging;
};

// Everything that a run of many requests stands on, from the command line: models, caches, draft,
// engine, each as large as the options ask for. It knows no requests: whatever fits may come.
struct BatchSession {
  // Throws Error for whatever is wrong with the options and files; warns on stderr where the draft
  // cannot pay.
  BatchSession(const RunOptions& options, ModelFiles files, const BatchParts& parts = {});

  const RunOptions options;
  ModelFiles files;
  BatchSizes sizes;
  TargetSetup target;
  DraftSetup draft;
  MemoryPlan memory;
  BatchEngine engine;
  std::string announcement;  // what a later stage says to people before the first step
  ReportExtras extras;       // and adds to the summary
};

}  // namespace specdec
