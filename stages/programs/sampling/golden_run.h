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

// A line of sampling.jsonl: a sampled run with everything that it was asked for.
struct GoldenRun {
  std::string id;
  GenerationRequest generation;
  SpeculationOptions speculation;
  std::uint64_t seed = 0;
  int spec_length = 0, context_limit = 0;
  std::vector<TokenId> tokens;
  std::vector<GoldenRound> rounds;
};

// Those of a folder; none where it has no sampling.jsonl. Throws Error, naming file, line and
// field, for what is out of the ranges of the options, or beyond the model's vocabulary or context.
std::vector<GoldenRun> golden_runs(const std::filesystem::path& goldens, const LlamaConfig& config);

// The same for a text in memory; `name` stands for the file in messages.
std::vector<GoldenRun> parse_golden_runs(std::string_view text, const std::string& name,
                                         const LlamaConfig& config);

}  // namespace specdec
