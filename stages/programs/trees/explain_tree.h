#pragma once
#include <string>

#include "common/tokenizer/tokenizer.h"
#include "stages/08_token_trees/tree_steps.h"
#include "stages/programs/speculation/round_record.h"

namespace specdec {

// A few lines for people: the tree with what became of each node (accepted, rejected, never
// reached), the token after the path, and both caches. context: ends with what the round emitted.
// tokenizer: null where there is none.
std::string explain_tree(const TokenTree& tree, const TreeRound& round, int number,
                         std::span<const TokenId> context, const RoundRecord::State& before,
                         const RoundRecord::State& after, const Tokenizer* tokenizer, bool colour);

}  // namespace specdec
