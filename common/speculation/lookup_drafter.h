#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "common/speculation/drafter.h"

namespace specdec {

// For a text that grows token by token, finds the longest suffix that has occurred earlier.
//
// In the suffix automaton of a text (Blumer et al. 1985, "The smallest automaton recognizing the
// subwords of a text"), each path from the root spells a substring of the text. Substrings that end
// at exactly the same positions share a state. So the suffixes of the whole text fall into groups,
// from long to short. Those that occur only at the end share the state of the whole text. The next
// state on its chain of links holds the longest suffix that also occurs elsewhere: the match. The
// earlier occurrence may overlap the suffix.
//
// A text of n tokens makes at most 2 n states and 3 n edges, and reading it takes a number of steps
// proportional to n, whatever the text; append() explains why. Edges are in a hash table, so a step
// is one comparison on average, for any vocabulary.
class SuffixAutomaton {
 public:
  struct Match {
    int length = 0;  // 0: even the last token is new
    int end = 0;     // one past the last token of the earlier occurrence; unused if length is 0
  };

  // Allocates all memory: 116 to 140 bytes per token of max_length.
  explicit SuffixAutomaton(int max_length);

  void clear();  // takes time proportional to max_length
  // REQUIRES: the text is shorter than max_length. Allocates nothing.
  void append(TokenId token);
  std::span<const TokenId> text() const { return text_; }

  // The longest suffix of the text that also occurs earlier. `end` is the latest position at which
  // the same string was already the longest match, so a guess that proved wrong there is not
  // repeated. If there is no such position, `end` is that of the first occurrence.
  Match match() const { return match_; }

  // Slots of the hash table that were inspected since construction.
  std::int64_t steps() const { return steps_; }

 private:
  // Strings that end at the same positions; each is a suffix of the longest one.
  struct State {
    int longest = 0;  // length of the longest string
    int link = -1;    // the state of its longest suffix in another state; none for the root
    int first_edge = -1;
    int first_end = 0;   // where its first occurrence ends
    int match_end = -1;  // where it was last the longest match; -1: never
  };
  // A string of `from` followed by `token` is a string of `to`.
  struct Edge {
    int from = 0;
    TokenId token = 0;
    int to = 0;
    int next = -1;  // the next edge that leaves `from`
  };

  int add_state(int longest, int first_end);
  void add_edge(int from, TokenId token, int to);
  int find_edge(int from, TokenId token);
  int split(int from, TokenId token, int state);
  std::size_t slot(int from, TokenId token);

  std::vector<TokenId> text_;
  std::vector<State> states_;  // the root is 0
  std::vector<Edge> edges_;
  std::vector<int> slots_;  // hash table of edge numbers, -1 if empty; its size is a power of two
  int whole_ = 0;           // the state of the whole text
  Match match_;
  std::int64_t steps_ = 0;
};

// Prompt lookup (LLMA, Yang et al. 2023; prompt lookup decoding, Saxena 2023): a drafter without a
// model. It assumes that the tokens which followed the same words earlier in the context follow
// them again. It pays off where the output repeats the prompt or itself: editing, code, questions
// about a text.
//
// It finds the longest suffix of the context that has occurred earlier, and copies what followed
// there. If there are several such places, SuffixAutomaton::match() picks one. The copy may run on
// into the tokens just drafted, so a text that repeats with any period is continued for all of K.
// If the match is shorter than min_match, nothing is drafted.
//
// Tokens are chosen, not drawn: each is certain, at any temperature.
class LookupDrafter final : public Drafter {
 public:
  // Drafting is free here, but verification is not. On the held-out text of golden/textgen (K = 5,
  // if the target generates it), min_match = 1 emits 1.37 tokens per pass of 3.6 rows, and 2 emits
  // 1.25 per pass of 2.1 rows. So 1 is better only if each row adds less than 7 % to a pass's time.
  static constexpr int kMinMatch = 2;

  // max_context: tokens of the longest context; max_sequences: how many sequences can exist at a
  // time. Allocates all memory. REQUIRES: min_match >= 1.
  explicit LookupDrafter(int max_context, int max_sequences = 1, int min_match = kMinMatch);

  SequenceId create() override;  // throws CacheFull when all are in use
  void release(SequenceId sequence) override;

  // Reads the new tokens of each context and drafts spec_length tokens, or none. The cost of a new
  // token does not depend on the context's length. Allocates nothing.
  // REQUIRES: contexts of at most max_context tokens. Whether a context continues the previous one
  // is checked by its length only.
  void draft(std::span<const DraftRequest> requests) override;

  // Drafts are never indexed, so rolling them back costs nothing. The automaton cannot shrink. If
  // tokens of the context are removed (after a round without drafts, the pending token), the next
  // draft() compares them with the new context, and if they differ, reads all of it again.
  void truncate(SequenceId sequence, int length) override;

  int length(SequenceId sequence) const override { return state(sequence).kept; }

  // The sum of SuffixAutomaton::steps() over all sequences.
  std::int64_t index_steps() const;

 private:
  struct Sequence {
    SuffixAutomaton index;
    int kept = 0;  // indexed tokens that truncate() has not removed
    bool taken = false;
  };

  const Sequence& state(SequenceId sequence) const;
  Sequence& state(SequenceId sequence);
  static void read(std::span<const TokenId> context, Sequence& sequence);
  void propose(const DraftRequest& request) const;

  int min_match_;
  std::vector<Sequence> sequences_;
};

}  // namespace specdec
