#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "common/speculation/drafter.h"

namespace specdec {

// Finds, for a text that grows token by token, the longest end of it that has occurred before.
//
// The suffix automaton of a text (Blumer et al. 1985, "The smallest automaton recognizing the
// subwords of a text") has an edge for each token that can follow, and each of its paths from the
// root spells a string that occurs. Strings that end at exactly the same places share a state. So
// the ends of the whole text fall into groups, long ones to short ones: the ends that occur nowhere
// else share the state of the whole text, and the next state on its chain of links begins with the
// longest end that does occur elsewhere, which is the answer. Occurrences may overlap the end.
//
// A text of n tokens makes at most 2 n states and 3 n edges, and is taken in with a number of steps
// proportional to n, whatever the text: append() explains. Edges are found through a hash table, so
// a step is one comparison on average, for any vocabulary.
class SuffixAutomaton {
 public:
  struct Match {
    int length = 0;  // 0: not even the last token has come before
    int end = 0;     // one past the last token of the earlier occurrence; nothing if length is 0
  };

  // Takes all memory, 116 to 140 bytes for each token of max_length.
  explicit SuffixAutomaton(int max_length);

  void clear();  // costs max_length
  // REQUIRES: the text is shorter than max_length. Allocates nothing.
  void append(TokenId token);
  std::span<const TokenId> text() const { return text_; }

  // The longest end of the text that occurs earlier, too. Of its occurrences, `end` is the last one
  // at which the very same string was already the longest match, so that a guess which proved wrong
  // there is not repeated; where there was none, the first occurrence.
  Match match() const { return match_; }

  // Slots of the hash table that were looked at, since construction.
  std::int64_t steps() const { return steps_; }

 private:
  // Strings that end at the same places; each is an end of the longest one.
  struct State {
    int longest = 0;  // length of the longest string
    int link = -1;    // the state of its longest end that is in another state; the root's: none
    int first_edge = -1;
    int first_end = 0;   // where its first occurrence ends
    int match_end = -1;  // where it was last the longest match; none: -1
  };
  // The strings of `from` can go on with this token, and are then in `to`.
  struct Edge {
    int from = 0;
    TokenId token = 0;
    int to = 0;
    int next = -1;  // another edge of `from`
  };

  int add_state(int longest, int first_end);
  void add_edge(int from, TokenId token, int to);
  int find_edge(int from, TokenId token);
  int split(int from, TokenId token, int state);
  std::size_t slot(int from, TokenId token);

  std::vector<TokenId> text_;
  std::vector<State> states_;  // the root is 0
  std::vector<Edge> edges_;
  std::vector<int> slots_;  // hash table: an edge's number, or -1; a power of two of them
  int whole_ = 0;           // the state of the whole text
  Match match_;
  std::int64_t steps_ = 0;
};

// A drafter without a model: what followed the same words earlier in the context will follow them
// again (LLMA, Yang et al. 2023; prompt lookup decoding, Saxena 2023). Pays where the output
// repeats the prompt or itself: editing, code, questions about a text.
//
// The longest end of the context that has occurred before is continued as it was continued there
// (SuffixAutomaton::match says where, if there are several places). The copy may run on into what
// has just been proposed, so a text that has begun to repeat with any period is continued for all
// of K. Where the longest match is shorter than min_match, nothing is proposed.
//
// Tokens are chosen, not drawn: each has all of its distribution, at any temperature.
class LookupDrafter final : public Drafter {
 public:
  // Drafting is free here, but verifying costs. On the held-out text of golden/textgen (K = 5, if
  // the target writes it) matches of one token bring 1.37 tokens a pass with 3.6 rows, without them
  // it is 1.25 with 2.1: worth it only where each row adds less than 7 % to the time of a pass.
  static constexpr int kMinMatch = 2;

  // max_context: the longest context; max_sequences: how many can exist at a time. Takes all memory
  // for both. REQUIRES: min_match >= 1.
  explicit LookupDrafter(int max_context, int max_sequences = 1, int min_match = kMinMatch);

  SequenceId create() override;  // throws CacheFull when all are in use
  void release(SequenceId sequence) override;

  // Reads what is new in each context and proposes spec_length tokens, or none. The cost of a new
  // token does not depend on the context's length. Allocates nothing.
  // REQUIRES: contexts of at most max_context tokens. That a context goes on where it was left is
  // checked by its length alone.
  void draft(std::span<const DraftRequest> requests) override;

  // Drafts are never indexed, so taking them back costs nothing. An index cannot shrink: where
  // tokens of the context are taken back (as after a round without drafts, the pending one), the
  // next draft() looks whether they have come again, and if not, reads its whole context anew.
  void truncate(SequenceId sequence, int length) override;

  int length(SequenceId sequence) const override { return state(sequence).kept; }

  // What SuffixAutomaton counts, of all sequences.
  std::int64_t index_steps() const;

 private:
  struct Sequence {
    SuffixAutomaton index;
    int kept = 0;  // tokens of the index that truncate() has left
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
