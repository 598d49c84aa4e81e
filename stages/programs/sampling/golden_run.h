#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/checkpoint/llama_config.h"
#include "common/generation_request.h"
#include "stages/05_rejection_sampling/judge.h"

namespace specdec {

// A round that an independent implementation recorded.
struct GoldenRound {
  struct Test {
    double target_prob = 0, draft_prob = 0;
  };
  int start = 0, spec_length = 0, accepted = 0, target_length = 0, draft_length = 0;
  std::vector<TokenId> drafts, emitted;
  std::vector<Test> tests;
};

// A line of sampling.jsonl: a recorded run with its request and options.
struct GoldenRun {
  std::string id;
  GenerationRequest generation;
  SpeculationOptions speculation;
  std::uint64_t seed = 0;
  int spec_length = 0, context_limit = 0;
  std::vector<TokenId> tokens;
  std::vector<GoldenRound> rounds;
};

// The recorded runs in a folder; none if it has no sampling.jsonl. Throws Error, naming file, line
// and field, if a value is out of an option's range, or of the model's vocabulary or context.
std::vector<GoldenRun> golden_runs(const std::filesystem::path& goldens, const LlamaConfig& config);

// The same for a text in memory. name: the name of the file in messages.
std::vector<GoldenRun> parse_golden_runs(std::string_view text, const std::string& name,
                                         const LlamaConfig& config);

}  // namespace specdec
