#pragma once
#include <vector>

#include "common/generation.h"
#include "stages/04_greedy_speculation/draft_and_verify.h"

namespace specdec {

// One round of speculative decoding for a target that decodes greedily (Leviathan et al., Algorithm
// 1 at temperature 0). What it appends to the context and to the generation is what the target
// alone would have chosen, token for token and bit for bit, whatever the drafter proposes; only the
// time depends on the drafts. Allocates nothing where the context has capacity for what it gets.
// REQUIRES: the context is the prompt and all that was emitted; the generation is not finished.
// Throws Error where logits are not numbers (NaN): none of them has chosen a token then.
Round greedy_round(DraftAndVerify& steps, std::vector<TokenId>& context, Generation& generation);

}  // namespace specdec
