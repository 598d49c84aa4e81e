#pragma once
#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "common/speculation/drafter.h"

namespace specdec {

// Remembers which tokens followed each short run of tokens in a text. It learns while the text
// grows, and forgets when the text shrinks.
class NgramCounts {
 public:
  // longest: the length of the longest runs, at least 1.
  explicit NgramCounts(int longest) : longest_(longest) {}

  std::span<const TokenId> text() const { return text_; }
  // likely: the target's likeliest tokens at the token's position. Each of them also counts as a
  // follower, as if the text had continued with it.
  void append(TokenId token, std::span<const TokenId> likely = {});
  void truncate(int length);  // REQUIRES: 0 <= length <= text().size()

  // Guesses the token that follows this text. Takes the longest run at its end that has been seen
  // before, and returns the most frequent of that run's last 16 followers, the latest one among
  // equals. -1: even the last token is new.
  TokenId guess(std::span<const TokenId> text) const;

 private:
  static constexpr int kRecent = 16;

  struct Less {
    using is_transparent = void;
    bool operator()(std::span<const TokenId> a, std::span<const TokenId> b) const {
      return std::ranges::lexicographical_compare(a, b);
    }
  };

  int longest_;
  std::vector<TokenId> text_;
  std::vector<std::size_t> counted_;  // followers that each token of the text added to each run
  // The followers of each run of 1 to `longest_` tokens, in the order of the text, so truncate()
  // removes them from the end.
  std::map<std::vector<TokenId>, std::vector<TokenId>, Less> followers_;
};

// A drafter without a model that learns from the text while it is generated. The longest match
// decides; if it occurs in several places, the most frequent follower wins. Prompt lookup copies
// what followed in one place; this drafter counts all places again for every token.
//
// With `--ngram-fill`, it also learns the target's likeliest tokens.
//
// Tokens are chosen, not drawn: each is certain, at any temperature.
class NgramDrafter final : public Drafter {
 public:
  static constexpr int kLongest = 3;

  explicit NgramDrafter(int longest = kLongest) : longest_(longest) {}

  SequenceId create() override;
  void release(SequenceId sequence) override;
  void draft(std::span<const DraftRequest> requests) override;
  void truncate(SequenceId sequence, int length) override;
  int length(SequenceId sequence) const override;

 private:
  int longest_;
  std::vector<NgramCounts> sequences_;
  std::vector<SequenceId> free_;
  std::vector<TokenId> text_;  // a context and its drafts so far
};

}  // namespace specdec
