#include "stages/10_beam_search/tree_cache.h"

#include <algorithm>

#include "kernels/int_size.h"

namespace specdec {

void TreeCache::open() {
  if (is_open()) return;
  sequence_ = model_.create();
  owns_sequence_ = true;
}

void TreeCache::open(SequenceId sequence) {
  close();
  sequence_ = sequence;
}

void TreeCache::close() {
  if (owns_sequence_) model_.release(sequence_);
  sequence_ = kNoSequence;
  owns_sequence_ = false;
  text_ = 0;
  nodes_.clear();
}

void TreeCache::prefill(const TextTree& tree) {
  open();
  believe_the_model();
  const int count = int_size(tree.text()) - text_ + int_size(missing(tree));
  if (count > 0) model_.forward(feed_next(tree, count), {});
}

// What was fed is not cached if the pass failed; and a sequence may have begun elsewhere.
void TreeCache::believe_the_model() {
  const int length = model_.length(sequence_);
  if (nodes_.empty() || length < text_) {
    text_ = length;
    nodes_.clear();
  }
  nodes_.resize(std::min(int_size(nodes_), length - text_));
}

Segment TreeCache::feed_next(const TextTree& tree, int count) {
  believe_the_model();
  const auto text = tree.text().subspan(text_);
  if (count <= int_size(text)) {
    text_ += count;
    return {sequence_, text.first(count), 0};
  }
  const std::vector<int> nodes = missing(tree);
  return feed(tree, std::span(nodes).first(count - int_size(text)), 0);
}

Segment TreeCache::feed(const TextTree& tree, std::span<const int> nodes, int rows) {
  believe_the_model();
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

TreeCache::Path TreeCache::path_above(const TextTree& tree, int leaf) const {
  Path path{.sequence = sequence_, .text = text_};
  for (int node = tree.node(leaf).parent; node != TextTree::kRoot; node = tree.node(node).parent) {
    path.places.push_back(text_ + place(node));
  }
  std::ranges::reverse(path.places);
  return path;
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
  believe_the_model();
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
