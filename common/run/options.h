#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "common/base/token_id.h"
#include "common/embedded_models.h"
#include "common/sampling/distribution.h"

namespace specdec {

// The command line that all stages share: an option means the same wherever it exists.
struct RunOptions {
  int stage = 0;

  std::string target = embedded_target().string();
  std::string prompt;  // one of prompt, prompt_ids, chat; the built-in prompt where all are empty
  std::vector<TokenId> prompt_ids;
  std::string chat;
  std::string system;
  bool has_prompt = false, has_chat = false;  // given, perhaps as an empty text

  int max_new_tokens = 128;
  bool ignore_eos = false;
  std::vector<std::string> stop;
  int max_context = 0;  // 0: the prompt + max_new_tokens

  std::string device = "auto";
  int threads = 0;  // 0: all cores
  std::string gemm = "invariant";

  std::string cache = "paged";
  int page_size = 16;
  int draft_page_size = 16;
  int pages = 0;  // 0: enough for the request

  // Stages 4 and later.
  std::string draft = embedded_draft().string();
  std::string draft_kind = "llama";
  std::string draft_text;  // what unigram and bigram are counted from; empty: the embedded text
  int spec_length = 5;
  bool no_speculation = false;
  std::string trace;  // JSON file with every round

  // Stages 5 and later; before, all is greedy.
  SamplingOptions sampling;
  std::optional<double> draft_temperature;  // none: as the target
  std::uint64_t seed = 0;
  std::string acceptance = "rejection";
  double lenience = 1;

  std::string output = "text";
  bool quiet = false;
  bool explain = false;
  bool check = false;
  std::string goldens;      // --check: golden files of the target; empty: those of the embedded one
  std::string dump;         // safetensors file for the tensors of the prompt's forward pass
  std::string dump_logits;  // safetensors file for the logits that decided each token
  std::string report;       // JSON file, the object of --output json
};

// "04_greedy_speculation" for 4.
std::string stage_name(int stage);

// Adds the options that the stage has. Those of other stages are errors that name one which has
// them. Values are checked where they are parsed.
void add_run_options(CLI::App& app, int stage, RunOptions& options);

}  // namespace specdec
