#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "common/generation.h"
#include "common/llama.h"
#include "common/run_stats.h"
#include "stages/04_greedy_speculation/draft_and_verify.h"
#include "stages/programs/show/report.h"
#include "stages/programs/speculation/cost_profile.h"
#include "stages/programs/speculation/draft_setup.h"
#include "stages/programs/speculation/round_log.h"

namespace specdec {

// Everything that a run of one request with speculation stands on, from the command line: models,
// caches, the draft, the text so far. What a stage does with it is its decode loop.
struct Session {
  // keep: see DraftAndVerify. Throws Error for whatever is wrong with the options and files;
  // warns on stderr where the draft cannot pay.
  Session(const RunOptions& options, KeepProbs keep);

  const RunOptions& options;
  Request request;
  SpeculationRoom room;
  std::unique_ptr<Backend> backend;
  LlamaModel model;
  DraftSetup draft;
  std::optional<CostProfile> profile;  // with --spec-length auto
  std::unique_ptr<KvCache> cache;
  Llama target;
  DraftAndVerify steps;
  RoundLog log;
  Generation generation;
  std::vector<TokenId> context;  // the prompt, and what was emitted
  RunStats stats;

  // After the last round: measures what the parts of a round cost, prints and writes what the
  // options ask for. choose: chooses a token from steps.logits(0) after a context, as plain
  // decoding does. rule: what judged the drafts.
  void finish(const Sampling& drafting,
              const std::function<void(std::span<const TokenId> context)>& choose,
              std::string_view rule, bool lossless);

 private:
  void adapt();
};

}  // namespace specdec
