#include "stages/08_token_trees/token_tree.h"

namespace specdec {

// [snippet add-trial]
int TokenTree::add_trial(int parent, TokenId token, int probs, double token_prob) {
  SPECDEC_CHECK(trials_.size() < trials_.capacity(), "at most {} trials", trials_.capacity());
  // [task 8.1: add a trial]
  Range& range = after_[static_cast<std::size_t>(parent + 1)];
  if (range.count == 0) range.first = n_trials();
  SPECDEC_CHECK(range.first + range.count == n_trials(), "the trials after one node together");
  const int known = child(parent, token);
  const int node = known == kRoot ? add_node(parent, token, token_prob) : known;
  trials_.push_back({node, probs});
  after_[static_cast<std::size_t>(parent + 1)].count++;
  return node;
  // [end task 8.1]
}
// [end snippet add-trial]

void TokenTree::prune(std::span<const int> kept) {
  std::vector<int> number(nodes_.size(), kRoot);
  for (int i = 0; i < std::ssize(kept); i++) {
    Node moved = node(kept[static_cast<std::size_t>(i)]);
    if (moved.parent != kRoot) moved.parent = number[static_cast<std::size_t>(moved.parent)];
    number[static_cast<std::size_t>(kept[static_cast<std::size_t>(i)])] = i;
    nodes_[static_cast<std::size_t>(i)] = moved;
  }
  nodes_.resize(kept.size());
  std::size_t n = 0;
  for (const Trial& trial : trials_) {
    const int node = number[static_cast<std::size_t>(trial.node)];
    if (node != kRoot) trials_[n++] = {node, trial.probs};
  }
  trials_.resize(n);
  after_.assign(kept.size() + 1, {});
  for (int i = 0; i < n_trials(); i++) {
    const int parent = node(trials_[static_cast<std::size_t>(i)].node).parent;
    Range& range = after_[static_cast<std::size_t>(parent + 1)];
    if (range.count++ == 0) range.first = i;
  }
}

}  // namespace specdec
