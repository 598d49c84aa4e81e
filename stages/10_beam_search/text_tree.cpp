#include "stages/10_beam_search/text_tree.h"

#include <algorithm>
#include <cstddef>

#include "common/base/check.h"

namespace specdec {

TextTree::TextTree(std::span<const TokenId> prompt)
    : text_(prompt.begin(), prompt.end() - 1), nodes_{{prompt.back(), kRoot}} {}

int TextTree::child(int parent, TokenId token) const {
  for (int i = parent + 1; i < size(); i++) {
    if (nodes_[i].parent == parent && nodes_[i].token == token) return i;
  }
  return kRoot;
}

int TextTree::add(int parent, TokenId token) {
  const int known = child(parent, token);
  if (known != kRoot) return known;
  nodes_.push_back({token, parent});
  return size() - 1;
}

// The last node is the deepest one, or as deep.
int TextTree::levels() const {
  const auto depth = [this](int node) {
    int above = 0;
    while ((node = nodes_[node].parent) != kRoot) above++;
    return above;
  };
  return depth(size() - 1) - depth(first_leaf_);
}

std::vector<TokenId> TextTree::text_to(int node) const {
  std::vector<TokenId> text = text_;
  for (; node != kRoot; node = nodes_[node].parent) text.push_back(nodes_[node].token);
  std::reverse(text.begin() + static_cast<std::ptrdiff_t>(text_.size()), text.end());
  return text;
}

// [snippet keep-leaves]
std::vector<int> TextTree::keep(std::span<const int> leaves) {
  SPECDEC_CHECK(!leaves.empty(), "at least one leaf");
  std::vector<int> leaves_below(nodes_.size()), became(nodes_.size(), kGone);
  for (const int leaf : leaves) {
    for (int node = leaf; node != kRoot; node = nodes_[node].parent) leaves_below[node]++;
  }
  const int first = *std::ranges::min_element(leaves);  // inner nodes come before all leaves
  std::vector<Node> kept;
  for (int node = 0; node < size(); node++) {
    const auto [token, parent] = nodes_[node];
    if (leaves_below[node] == 0) continue;
    if (node < first && leaves_below[node] == std::ssize(leaves)) {
      text_.push_back(token);
      became[node] = kRoot;
    } else {
      became[node] = static_cast<int>(kept.size());
      kept.push_back({token, parent == kRoot ? kRoot : became[parent]});
    }
  }
  nodes_ = kept;
  first_leaf_ = size() - static_cast<int>(leaves.size());
  return became;
}
// [end snippet keep-leaves]

}  // namespace specdec
