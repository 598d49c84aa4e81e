#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/base/token_id.h"

namespace specdec {

// How often each string of up to `depth` tokens occurs in a set of texts.
//
// A path from the root spells a string, and its node counts where the string ends. A token adds
// the strings that end with it, at most `depth` of them, and takes them away again in the same
// way. So texts can grow, lose their last tokens, and be forgotten, each token for the same small
// cost. A suffix automaton, as in prompt lookup, knows strings of any length in less memory, but it
// can neither count nor forget.
class SuffixTrie {
 public:
  static constexpr int kRoot = 0, kNone = -1;

  // REQUIRES: depth >= 1.
  explicit SuffixTrie(int depth);

  // Counts the strings of `text` that end with its last token. REQUIRES: the strings that end
  // with the token before are counted.
  void add_end(std::span<const TokenId> text);
  // Takes back what add_end() counted. REQUIRES: it is counted, and longer beginnings of the text
  // are not.
  void remove_end(std::span<const TokenId> text);
  void add(std::span<const TokenId> text);     // all strings of the text
  void remove(std::span<const TokenId> text);  // REQUIRES: they are counted

  struct Match {
    int length = 0;  // 0: no end of the context was ever followed by anything
    int node = kRoot;
  };
  // The longest end of the context, of fewer than `depth` tokens, that some token has followed.
  Match longest_match(std::span<const TokenId> context) const;

  // The followers of a node's string: its children, the newest first.
  int first_follower(int node) const { return nodes_[node].first; }
  int next_follower(int node) const { return nodes_[node].next; }
  TokenId token(int node) const { return nodes_[node].token; }
  int count(int node) const { return nodes_[node].count; }
  int depth() const { return depth_; }
  std::int64_t n_nodes() const { return std::ssize(nodes_) - std::ssize(free_); }

 private:
  struct Node {
    TokenId token = 0;
    int count = 0;
    int parent = kNone, first = kNone, next = kNone, previous = kNone;
  };

  int child(int node, TokenId token) const;         // kNone: there is none
  int find(std::span<const TokenId> string) const;  // kNone: it does not occur
  int add_child(int parent, TokenId token);
  void remove_leaf(int node);

  int depth_;
  std::vector<Node> nodes_;
  std::vector<int> free_;
  std::unordered_map<std::uint64_t, int> children_;  // by key()
};

}  // namespace specdec
