#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "stages/04_greedy_speculation/greedy_drafter.h"
#include "tests/course/probes/scenes.h"
#include "tests/scripted_drafter.h"

// Models, drafts and texts for the probe of stage 4.
namespace specdec::course {

inline constexpr int kVocab = 50;
inline constexpr int kNoLimit = 1 << 20;

// A target, and a draft that says the same after about `agreement` of all prefixes.
struct Pair {
  Pair(std::uint64_t seed, double agreement, int max_seq_len = kNoLimit)
      : target_rows(kVocab, [=](std::span<const TokenId> prefix) { return choice(seed, prefix); }),
        draft_rows(kVocab,
                   [=](std::span<const TokenId> prefix) {
                     const bool agrees = prefix_number(seed + 77, prefix) % 100 < 100 * agreement;
                     return (choice(seed, prefix) + (agrees ? 0 : 1)) % kVocab;
                   }),
        target_table(kVocab, target_rows.row_of(), max_seq_len),
        draft_table(kVocab, draft_rows.row_of()),
        target(target_table),
        draft(draft_table),
        drafter(draft, 200) {}

  static TokenId choice(std::uint64_t seed, std::span<const TokenId> prefix) {
    return static_cast<TokenId>(prefix_number(seed, prefix) % kVocab);
  }
  // What the draft says after a context, token by token.
  Tokens drafts_after(Tokens context, int K) {
    const auto n = context.size();
    for (int i = 0; i < K; i++) {
      const auto row = draft_rows(context);
      context.push_back(static_cast<TokenId>(std::ranges::max_element(row) - row.begin()));
    }
    return {context.begin() + std::ptrdiff_t(n), context.end()};
  }

  Rows target_rows, draft_rows;
  TableModel target_table, draft_table;
  WatchedModel target, draft;
  GreedyDrafter drafter;
};

inline Tokens prompt_of(std::uint64_t seed, int count) { return tokens_of(seed, count, kVocab); }

// The text that the target writes alone.
inline Tokens text_after(std::uint64_t seed, const Tokens& prompt, int count) {
  Tokens text = prompt;
  for (int i = 0; i < count; i++) text.push_back(Pair::choice(seed, text));
  return {text.begin() + std::ssize(prompt), text.end()};
}

// Drafts that are right but for certain places of the text.
inline ScriptedDrafter::Script with_mistakes(std::uint64_t seed, int every) {
  return [=](std::span<const TokenId> context, int i) {
    Tokens text = to_tokens(context);
    for (int n = 0; n <= i; n++) text.push_back(Pair::choice(seed, text));
    return (text.back() + (every > 0 && text.size() % every == 0 ? 1 : 0)) % kVocab;
  };
}

}  // namespace specdec::course
