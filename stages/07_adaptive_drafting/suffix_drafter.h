#pragma once
#include <deque>
#include <queue>
#include <span>
#include <vector>

#include "common/speculation/drafter.h"
#include "stages/07_adaptive_drafting/suffix_trie.h"

namespace specdec {

// Texts that ended, up to a number of tokens. The oldest are forgotten first.
class SuffixMemory {
 public:
  explicit SuffixMemory(int depth, int max_tokens) : trie_(depth), max_tokens_(max_tokens) {}

  // Adds a text, or its end if it is too long. It takes the place of a text that it continues, so a
  // request that is preempted and goes on counts once.
  void add(std::span<const TokenId> text);

  const SuffixTrie& trie() const { return trie_; }
  int tokens() const { return tokens_; }

 private:
  void forget(std::size_t i);

  SuffixTrie trie_;
  int max_tokens_;
  int tokens_ = 0;
  std::deque<std::vector<TokenId>> texts_;  // the oldest first
};

// Suffix drafting (SuffixDecoding, Oliaro et al. 2024): a drafter without a model. It looks for the
// longest end of the context that has occurred before, in this text or in texts that ended, and
// drafts what followed most often. The longer the match, the more it drafts.
//
// The estimated probability of a path is the product of count / (1 + counts of all followers) over
// its tokens: one more occurrence may always go on in another way. A tree grows where this is
// largest; a chain takes the best follower of each token.
//
// Tokens are chosen, not drawn: each is certain, at any temperature. The texts that ended belong to
// other requests. So a request's drafts depend on its neighbours, and its text does not only if the
// rule emits the same text for every draft.
class SuffixDrafter final : public Drafter {
 public:
  struct Options {
    int depth = 8;      // the longest strings that are counted
    int min_match = 1;  // a shorter match drafts nothing
    int per_match = 2;  // levels per token of the match
    int nodes = 0;      // of a tree; 0: chains
    int memory = 0;     // tokens of texts that ended; 0: only the request's own text counts
  };

  // earlier: texts that ended before the first request; they always count.
  explicit SuffixDrafter(const Options& options, std::span<const TokenId> earlier = {});

  SequenceId create() override;
  void release(SequenceId sequence) override;
  void draft(std::span<const DraftRequest> requests) override;
  void truncate(SequenceId sequence, int length) override;
  int length(SequenceId sequence) const override;
  Capacity capacity(int spec_length) const override;

  const SuffixMemory& memory() const { return memory_; }

 private:
  struct Sequence {
    SuffixTrie trie;
    std::vector<TokenId> text;
  };
  // A token that may be drafted, and then a node of the tree.
  struct Candidate {
    int parent = Drafts::kRoot;  // the number of a grown node
    int depth = 0;
    TokenId token = 0;
    double prob = 1, path_prob = 1;  // estimated: of the token, and of the path to it
    int number = 0;                  // in the order in which candidates were found

    // The likeliest is taken first, and the first found among equals.
    bool operator<(const Candidate& other) const {
      if (path_prob != other.path_prob) return path_prob < other.path_prob;
      return number > other.number;
    }
  };
  struct Found {
    const SuffixTrie* trie = nullptr;
    SuffixTrie::Match match;
  };

  void read(std::span<const TokenId> context, Sequence& sequence);
  void grow(const DraftRequest& request, const Sequence& sequence);
  Found longest_match(const Sequence& sequence) const;
  int add_followers(const Sequence& sequence, int parent);
  void set_end(const Sequence& sequence, int node);
  void hand_over(Drafts& drafts) const;

  Options options_;
  SuffixTrie earlier_;
  SuffixMemory memory_;
  std::vector<Sequence> sequences_;
  std::vector<SequenceId> free_;
  std::priority_queue<Candidate> candidates_;
  std::vector<Candidate> grown_;
  int found_ = 0;             // candidates in this round
  std::vector<TokenId> end_;  // the last tokens before a candidate
};

}  // namespace specdec
