#pragma once
#include <optional>
#include <vector>

#include "common/checkpoint/checkpoint.h"
#include "common/run/options.h"
#include "common/tokenizer/tokenizer.h"

namespace specdec {

// What is in a model's directory, but for the weights.
struct ModelFiles {
  Checkpoint checkpoint;
  std::optional<Tokenizer> tokenizer = {};  // none: the checkpoint has none, and prompts are ids
  int token_limit = 0;  // ids from here on are no tokens (padding of the vocabulary)

  const Tokenizer* tokenizer_or_null() const { return tokenizer ? &*tokenizer : nullptr; }
};

// What is to be generated, and when it ends.
struct GenerationRequest {
  std::vector<TokenId> prompt = {};  // at least one id
  int max_new_tokens = 0;
  int max_context = 0;                 // positions that prompt and new tokens may take
  std::vector<TokenId> eos_ids = {};   // empty with --ignore-eos
  std::vector<std::string> stop = {};  // texts to stop before
};

// What a program is asked to do, read and checked.
struct Request : ModelFiles, GenerationRequest {};

// Throws Error: a missing or bad checkpoint or tokenizer.
ModelFiles open_model(const std::string& directory);

// Throws Error: a prompt that is empty, not UTF-8 or has ids outside the vocabulary; prompt +
// max-new-tokens beyond the context, with the numbers; stop texts that are empty.
GenerationRequest read_generation_request(const ModelFiles& model, const RunOptions& options);

// Both.
Request read_request(const RunOptions& options);

}  // namespace specdec
