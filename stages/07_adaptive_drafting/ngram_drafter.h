#pragma once
#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "common/speculation/drafter.h"

namespace specdec {

// What followed the last few tokens wherever they came before in the text: counts that are learned
// while the text grows, and unlearned where it shrinks.
class NgramCounts {
 public:
  // longest: the most tokens that a guess goes by, at least 1.
  explicit NgramCounts(int longest) : longest_(longest) {}

  std::span<const TokenId> text() const { return text_; }
  // likely: what the target found likely in the token's place; counts as if the text had gone on
  // with each of these as well.
  void append(TokenId token, std::span<const TokenId> likely = {});
  void truncate(int length);  // REQUIRES: 0 <= length <= text().size()

  // What follows this text, by the most of its last tokens that have been seen before: the most
  // frequent of their last 16 followers, the latest one among equals. -1: not even the last token
  // has come before.
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
  std::vector<std::size_t> counted_;  // followers that each token of the text added to a run
  // After each run of 1 to `longest_` tokens: what followed it, in the order of the text. So the
  // last one to come is the first one to go.
  std::map<std::vector<TokenId>, std::vector<TokenId>, Less> followers_;
};

// A drafter without a model that learns from the text as it is written. Its
// longest match counts most, and among several places with that match the frequent one. Lookup
// decoding copies what followed at one place; this one asks all places again for every token.
//
// Where the target's likely tokens are noted (`--ngram-fill`), it learns those as well.
//
// Tokens are chosen, not drawn: each has all of its distribution, at any temperature.
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
  std::vector<TokenId> text_;  // a context, and the drafts so far
};

}  // namespace specdec
