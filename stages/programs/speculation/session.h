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

// What differs between the stages that speculate.
struct SessionParts {
  Drafting drafting = {};
  ComposeDrafter compose = {};
  // Chooses K of each round; by default --spec-length.
  std::function<std::unique_ptr<SpecLengthPolicy>(const Session&)> make_policy = {};
  RoundCapacity capacity = Capacity::of_chain;
};

// What judged the drafts, for reports.
struct Judgement {
  Sampling drafting = {};
  // Chooses a token from steps.logits(0) after a context, as plain decoding does.
  std::function<void(std::span<const TokenId> context)> choose;
  std::string_view rule = "greedy";
  bool lossless = true;
};

// Everything that a run of one request with speculation is made of, from the command line: models,
// caches, the draft, the text so far. What a stage does with it is its decode loop.
struct Session {
  // Throws Error for whatever is wrong with the options and files; warns on stderr where the draft
  // cannot pay.
  explicit Session(const RunOptions& options, const SessionParts& parts = {});

  const RunOptions& options;
  const ModelFiles files;
  const GenerationRequest request;
  const Capacity capacity;
  TargetSetup target;
  DraftSetup draft;
  RoundClock clock;
  DraftAndVerify steps;
  Generation generation;
  RoundLog log;
  std::vector<TokenId> context;  // the prompt, and what was emitted
  RunStats stats;

  // Around the decode loop: all clocks, counters and logs are here.
  void prefill();
  void before_round();
  void after_round(const Round& round, const RoundEvidence& evidence);

  // After the last round: measures what the parts of a round cost, prints and writes what the
  // options ask for. extras: what the stage adds. of_speedup: and what it says about the speedup.
  void finish(const Judgement& judgement, ReportExtras extras = {},
              const std::function<std::string(const Speedup&)>& of_speedup = {});

 private:
  std::vector<MadeRound> rounds_;
};

}  // namespace specdec
