#pragma once
#include <vector>

#include "common/generation.h"
#include "stages/04_greedy_speculation/draft_and_verify.h"

namespace specdec {

// Runs one round of speculative decoding for a target that decodes greedily (Leviathan et al.,
// Algorithm 1 at temperature 0). Appends to the context and to the generation exactly the tokens
// that the target would choose without drafts, whatever the drafter proposes: only the time depends
// on the drafts. Allocates nothing if the context has enough capacity. REQUIRES: the context is the
// prompt and all emitted tokens; the generation is not finished. Throws BadLogits if a row that
// must choose a token contains NaN; that row emits nothing.
Round greedy_round(DraftAndVerify& steps, std::vector<TokenId>& context, Generation& generation);

}  // namespace specdec
