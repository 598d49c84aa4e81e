#pragma once
#include <span>

#include "common/base/json_value.h"
#include "common/speculation/drafts.h"
#include "common/speculation/round.h"
#include "common/tokenizer/tokenizer.h"

namespace specdec {

// A round for a page that shows it: its drafts with their verdicts, the token that the target
// added, and the tokens that it emitted, in texts. A text with bytes that are no character has
// U+FFFD there. is_tree: drafts may branch.
Json shown_round(const Round& round, const Drafts& drafts, std::span<const TokenId> emitted,
                 bool is_tree, const Tokenizer& tokenizer);

}  // namespace specdec
