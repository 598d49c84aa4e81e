#include "stages/10_beam_search/tree_cache.h"

#include <algorithm>

#include "kernels/int_size.h"

namespace specdec {

void TreeCache::prefill(const TextTree& tree) {
  open();
  if (text_ < int_size(tree.text())) model_.forward(feed(tree, {}, 0), {});
  const std::vector<int> nodes = missing(tree);
  if (!nodes.empty()) model_.forward(feed(tree, nodes, 0), {});
}

void TreeCache::close() {
  if (sequence_ != kNoSequence) model_.release(sequence_);
  sequence_ = kNoSequence;
  text_ = 0;
  nodes_.clear();
}

void TreeCache::open() {
  if (sequence_ == kNoSequence) sequence_ = model_.create();
}

Extension TreeCache::extension(const TextTree& tree, int nodes) const {
  return {sequence_, int_size(tree.text()) - text_ + int_size(missing(tree)) + nodes};
}

Segment TreeCache::feed(const TextTree& tree, std::span<const int> nodes, int rows) {
  // A chain of what is missing of the text, and then the nodes: all in one tree.
  const auto missing = tree.text().subspan(text_);
  tokens_.assign(missing.begin(), missing.end());
  const int chain = int_size(tokens_);
  parents_.clear();
  for (int i = 0; i < chain; i++) parents_.push_back(i - 1);
  const auto add_parent = [&](int node) {
    const int parent = tree.node(node).parent;
    parents_.push_back(chain + (parent == TextTree::kRoot ? -1 : place(parent)));
  };
  std::ranges::for_each(nodes_, add_parent);  // none if there is a chain
  for (const int node : nodes) {
    add_parent(node);
    nodes_.push_back(node);
    tokens_.push_back(tree.node(node).token);
  }
  text_ += chain;
  bool branches = false;
  for (int i = 0; i < int_size(parents_); i++) branches |= parents_[i] != i - 1;
  if (!branches) parents_.clear();
  return {sequence_, tokens_, rows, parents_};
}

// The place of a cached node, from text_ on.
int TreeCache::place(int node) const {
  return static_cast<int>(std::ranges::find(nodes_, node) - nodes_.begin());
}

std::vector<int> TreeCache::missing(const TextTree& tree) const {
  std::vector<int> missing;
  for (int node = 0; node < tree.first_leaf(); node++) {
    if (place(node) == int_size(nodes_)) missing.push_back(node);
  }
  return missing;
}

// [snippet keep-survivors]
void TreeCache::keep(const TextTree& tree, std::span<const int> became) {
  // [task 10.3: keep the survivors]
  const int start = text_;
  std::vector<int> kept_places, kept_nodes;
  for (int place = 0; place < int_size(nodes_); place++) {
    const int node = became[nodes_[place]];
    if (node == TextTree::kGone || node >= tree.first_leaf()) continue;
    kept_places.push_back(start + place);
    if (node == TextTree::kRoot) {
      text_++;  // a node that is part of the text now: these come first
    } else {
      kept_nodes.push_back(node);
    }
  }
  model_.keep(sequence_, start, kept_places);
  nodes_ = kept_nodes;
  // [end task 10.3]
}
// [end snippet keep-survivors]

}  // namespace specdec
