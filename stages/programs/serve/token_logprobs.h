#pragma once
#include <span>

#include "common/base/json_value.h"
#include "common/tokenizer/tokenizer.h"

namespace specdec {

// The "logprobs" of tokens, in the form of /v1/chat/completions or of /v1/completions: each token's
// logarithm of its probability, and the `top` likeliest tokens with theirs. They come from the
// target's logits as they are: temperature and filters do not change them.
//
// logits: [tokens, V], the rows that decided the tokens. token_limit: ids from here on are not
// tokens.
Json token_logprobs(std::span<const TokenId> tokens, std::span<const float> logits, int token_limit,
                    int top, bool is_chat, const Tokenizer& tokenizer);

}  // namespace specdec
