#pragma once
#include <span>
#include <vector>

#include "common/base/token_id.h"

namespace specdec {

// The texts of all beams: what they begin with, and from there a tree. Each beam is a leaf, and all
// leaves are equally deep. In a round, drafts follow the leaves.
//
// Invariants: a node's parent has a smaller number. Inner nodes, each above a leaf, have the
// numbers below first_leaf(); then come the leaves, and then the drafts.
class TextTree {
 public:
  static constexpr int kRoot = -1;  // the text's last token; the parent of the first nodes
  static constexpr int kGone = -2;

  struct Node {
    TokenId token = 0;
    int parent = kRoot;
  };

  // One leaf, the prompt's last token. REQUIRES: the prompt is not empty.
  explicit TextTree(std::span<const TokenId> prompt);

  std::span<const TokenId> text() const { return text_; }  // that all beams begin with
  int size() const { return static_cast<int>(nodes_.size()); }
  int first_leaf() const { return first_leaf_; }
  const Node& node(int i) const { return nodes_[i]; }
  // The child of a node, or of kRoot, that has this token; kRoot if there is none.
  int child(int parent, TokenId token) const;
  // The same; if there is none, adds it.
  int add(int parent, TokenId token);
  int levels() const;  // of drafts, below the leaves
  // The whole text that ends with a node.
  std::vector<TokenId> text_to(int node) const;

  // Keeps these nodes, which become the leaves, and all above them. Nodes that are above all leaves
  // become part of the text. Returns what each node has become: its new number, kRoot if it is in
  // the text now, or kGone. REQUIRES: leaves are distinct and equally deep.
  std::vector<int> keep(std::span<const int> leaves);

 private:
  std::vector<TokenId> text_;
  std::vector<Node> nodes_;
  int first_leaf_ = 0;
};

}  // namespace specdec
