#pragma once
#include <functional>
#include <span>

#include "common/sampling/random_source.h"

namespace specdec {

// [snippet block]
// One chain of drafts, and what both models say along it.
struct DraftedBlock {
  int position = 0;  // of the first draft
  std::span<const TokenId> tokens;
  // [V] after i drafts, 0 <= i <= tokens.size().
  std::function<std::span<const double>(int i)> target_probs;
  // [V], what draft i was drawn from; empty: it was certain.
  std::function<std::span<const double>(int i)> draft_probs;
};

// How many drafts are accepted, and the token after them.
struct BlockDecision {
  int accepted = 0;
  TokenId token = 0;
};
// [end snippet block]

// Block verification (Sun et al. 2024, "Block Verification Accelerates Speculative Decoding",
// algorithm 2): all drafts are looked at before any is rejected, and the longest prefix that passes
// its test is accepted. Lossless. On average it accepts at least as many as the rule that judges
// token by token, whatever the two models say.
//
// It looks at drafts after the ones that it rejects. So draws for a position in this round and in
// a later one must not be the same: the names of both drafts and tests have the level in them.
// owed: [V], working memory.
BlockDecision verify_block(const DraftedBlock& block, RandomSource& random, std::span<double> owed);

}  // namespace specdec
