#pragma once
#include <optional>
#include <vector>

#include "common/checkpoint/checkpoint.h"
#include "common/generation_request.h"
#include "common/tokenizer/chat_template.h"
#include "common/tokenizer/tokenizer.h"
#include "stages/programs/run/options.h"

namespace specdec {

// An opened model directory.
struct ModelFiles {
  Checkpoint checkpoint;
  std::optional<Tokenizer> tokenizer = {};  // if the checkpoint has none, prompts are ids
  ChatChoice chat = {};                     // the format of its chats
  int token_limit = 0;  // ids from here on are not tokens (padding of the vocabulary)

  const Tokenizer* tokenizer_or_null() const { return tokenizer ? &*tokenizer : nullptr; }
};

// Throws Error: a missing or bad checkpoint or tokenizer.
ModelFiles open_model(const std::string& directory);

// The format of the model's chats. Throws Error if none is known.
const ChatFormat& chat_format(const ModelFiles& model);

// Positions that a request may use: --max-context, or the model's.
int context_limit(const ModelFiles& model, const RunOptions& options);

// The request that the options describe. The answer in a chat ends with one of the model's end
// tokens, or with the token that ends a turn in its chat format. Throws Error: messages that are
// not a chat, or a chat whose format is not known; a prompt that is empty, not UTF-8 or has ids
// outside the vocabulary; prompt + max-new-tokens beyond the context, with the numbers; empty stop
// texts.
GenerationRequest read_request(const ModelFiles& model, const RunOptions& options);

}  // namespace specdec
