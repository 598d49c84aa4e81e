#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "common/run_stats.h"
#include "stages/10_beam_search/beam_search.h"
#include "stages/programs/beams/beam_record.h"
#include "stages/programs/run/options.h"
#include "stages/programs/run/request.h"
#include "stages/programs/speculation/draft_setup.h"
#include "stages/programs/speculation/speedup.h"

namespace specdec {

// The hypotheses of a search.
struct FoundTexts {
  const RunOptions& options;
  const ModelFiles& files;
  const GenerationRequest& request;
  std::span<const Hypothesis> hypotheses;  // the best first
};

// The rules of a search, and the --num-return best of its hypotheses.
Json to_json(const FoundTexts& found);
// The texts of these after the best one, each below a line with its number and score.
std::string other_texts(const FoundTexts& found);

// A search that has ended.
struct FoundBeams {
  const RunOptions& options;
  const ModelFiles& files;
  const GenerationRequest& request;
  const LlamaConfig& target;  // of the model that ran
  const DraftSetup& draft;
  const RunStats& stats;  // a token is a step of all beams
  std::string device;
  std::span<const Hypothesis> hypotheses;  // the best first
  std::int64_t kept = 0;  // cached tokens beyond the beams' common text, summed over rounds
  const BeamLog& log;
  int page_size = 0;  // of the target's cache
  StepTimes times = {};
};

// Prints and writes what the options ask for: the best text, or --num-return texts with their
// scores; the JSON object, with the fields of other stages for the best text, and a list of
// hypotheses; the summary on stderr; the trace. Throws Error.
void report_beams(const FoundBeams& found);

}  // namespace specdec
