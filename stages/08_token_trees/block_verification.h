#pragma once
#include <functional>
#include <span>

#include "common/sampling/random_source.h"

namespace specdec {

// One chain of drafts, and the distributions of both models along it.
struct DraftedBlock {
  int position = 0;  // of the first draft
  std::span<const TokenId> tokens;
  // The target's distribution after i drafts, [V]; 0 <= i <= tokens.size().
  std::function<std::span<const double>(int i)> target_probs;
  // The distribution that draft i was drawn from, [V]; empty if the draft is certain.
  std::function<std::span<const double>(int i)> draft_probs;
};

// The number of accepted drafts, and the token that follows them.
struct BlockDecision {
  int accepted = 0;
  TokenId token = 0;
};

// Block verification (Sun et al. 2024, "Block Verification Accelerates Speculative Decoding",
// algorithm 2): tests all drafts before it rejects any, and accepts the longest prefix that passes
// its test. Lossless. For any two models, it accepts on average at least as many drafts as
// rejection sampling token by token.
//
// It looks past the drafts that it rejects, and a later round draws for the same positions again.
// These draws must differ, so the index of every draft and every test contains the level.
// owed: [V], working memory.
BlockDecision verify_block(const DraftedBlock& block, RandomSource& random, std::span<double> owed);

}  // namespace specdec
