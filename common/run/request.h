#pragma once
#include <optional>
#include <vector>

#include "common/checkpoint/checkpoint.h"
#include "common/run/options.h"
#include "common/tokenizer/tokenizer.h"

namespace specdec {

// What a program is asked to do, read and checked: the model's files, the prompt, the limits.
struct Request {
  Checkpoint checkpoint;
  std::optional<Tokenizer> tokenizer =
      {};                            // none: the checkpoint has none, and the prompt came as ids
  std::vector<TokenId> prompt = {};  // at least one id
  int max_new_tokens = 0;
  int max_context = 0;                 // positions that prompt and new tokens may take
  std::vector<TokenId> eos_ids = {};   // empty with --ignore-eos
  std::vector<std::string> stop = {};  // texts to stop before
  int token_limit = 0;                 // ids from here on are no tokens (padding of the vocabulary)
};

// Throws Error: a missing or bad checkpoint or tokenizer; a prompt that is empty, not UTF-8 or has
// ids outside the vocabulary; prompt + max-new-tokens beyond the context, with the numbers.
Request read_request(const RunOptions& options);

}  // namespace specdec
