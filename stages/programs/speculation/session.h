#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/generation.h"
#include "common/run_stats.h"
#include "stages/04_greedy_speculation/draft_and_verify.h"
#include "stages/programs/show/report_extras.h"
#include "stages/programs/speculation/draft_setup.h"
#include "stages/programs/speculation/measure_steps.h"
#include "stages/programs/speculation/round_log.h"
#include "stages/programs/speculation/target_setup.h"
#include "stages/programs/speculation/timed_models.h"

namespace specdec {

struct Session;

// The parts of a session that differ between the stages.
struct SessionParts {
  Drafting drafting = {};
  ComposeDrafter compose = {};
  // Makes the policy that chooses K of each round; none: K is --spec-length.
  std::function<std::unique_ptr<SpecLengthPolicy>(const Session&)> make_policy = {};
  RoundCapacity capacity = Capacity::of_chain;
};

// How drafts were drawn and judged, for measurements and reports.
struct Judgement {
  Sampling drafting = {};
  // Chooses a token from steps.logits(0) after a context, as plain decoding does.
  std::function<void(std::span<const TokenId> context)> choose;
  std::string_view rule = "greedy";
  bool lossless = true;
};

// The capacity for a request. Includes K drafts beyond the last token asked for, so that K need not
// shrink there. Surplus tokens are discarded.
Capacity session_capacity(const RunOptions& options, const ModelFiles& files,
                          const GenerationRequest& request, const RoundCapacity& of_round);

// A speculative run of one request, set up from the command line: models, caches, drafter, and the
// text so far. Each stage adds its decode loop.
struct Session {
  // Throws Error for bad options and files. Warns on stderr if the draft cannot make decoding
  // faster.
  explicit Session(const RunOptions& options, const SessionParts& parts = {});

  const RunOptions& options;
  const ModelFiles files;
  const GenerationRequest request;
  const Capacity capacity;
  TargetSetup target;
  DraftSetup draft;
  std::unique_ptr<TargetRows> watched;  // the target as a drafter watches it; null: none does
  RoundClock clock;
  DraftAndVerify steps;
  Generation generation;
  RoundLog log;
  std::vector<TokenId> context;  // the prompt and all emitted tokens
  RunStats stats;

  // The decode loop calls these. They keep all clocks, counters and logs.
  void prefill();
  void before_round();
  void after_round(const Round& round, const RoundEvidence& evidence);

  // Call after the last round. Measures the parts of a round, then prints and writes the reports of
  // the options. extras, of_speedup: the stage's additions, and its lines about the speedup.
  void finish(const Judgement& judgement, ReportExtras extras = {},
              const std::function<std::string(const Speedup&)>& of_speedup = {});

 private:
  std::vector<MadeRound> rounds_;
};

}  // namespace specdec
