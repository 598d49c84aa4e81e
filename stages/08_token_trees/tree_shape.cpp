#include "stages/08_token_trees/tree_shape.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace specdec {
namespace {

// Adds the `count` likeliest tokens of positive probability, the lower id first among equals.
void add_likeliest(TokenTree& tree, int node, std::span<const double> probs, int count) {
  for (int rank = 0; rank < count; rank++) {
    TokenId best = -1;
    for (TokenId token = 0; token < std::ssize(probs); token++) {
      const double prob = probs[static_cast<std::size_t>(token)];
      const bool better = best < 0 || prob > probs[static_cast<std::size_t>(best)];
      if (prob > 0 && better && tree.child(node, token) == TokenTree::kRoot) best = token;
    }
    if (best < 0) return;
    tree.add_trial(node, best, TokenTree::kCertain, probs[static_cast<std::size_t>(best)]);
  }
}

// The numbers first .. end - 1.
void numbers(int first, int end, std::vector<int>& all) {
  all.resize(static_cast<std::size_t>(std::max(0, end - first)));
  std::iota(all.begin(), all.end(), first);
}

// Of nodes in their order, the `count` of the largest draft_prob, in their order.
void most_likely(const TokenTree& tree, int count, std::vector<int>& nodes) {
  if (std::ssize(nodes) <= count) return;
  std::ranges::stable_sort(nodes, std::ranges::greater{},
                           [&](int node) { return tree.node(node).draft_prob; });
  nodes.resize(static_cast<std::size_t>(count));
  std::ranges::sort(nodes);
}

}  // namespace

void TreeShape::look_at(const TokenTree& tree, int first, std::vector<int>& nodes) {
  numbers(first, tree.size(), nodes);
}

void TreeShape::choose(const TokenTree& tree, std::vector<int>& nodes) const {
  numbers(0, tree.size(), nodes);
}

TreeRoom Chains::room() const {
  const int n = count_ * levels_;
  return {levels_, n, n, n - count_ + 1, count_, n};
}

TreeShape::Wish Chains::wish(const TokenTree& tree, int node) const {
  return {BranchBy::kDraws, node == TokenTree::kRoot ? count_ : tree.drafts_through(node)};
}

// [snippet chains]
void Chains::branch(TokenTree& tree, int node, std::span<const double> draft_probs,
                    TreeDraws& draws) {
  const int drafts = wish(tree, node).count;
  const int probs = tree.add_probs();
  std::ranges::copy(draft_probs, tree.probs_to_fill(probs).begin());
  for (int k = 0; k < drafts; k++) {
    const TokenId token = draws.draw(draft_probs);
    tree.add_trial(node, token, probs, draft_probs[static_cast<std::size_t>(token)]);
  }
}
// [end snippet chains]

TreeRoom DistinctDrafts::room() const {
  TreeRoom room{.levels = static_cast<int>(widths_.size())};
  int level = 1;
  for (const int width : widths_) {
    room.width = level;
    level *= width;
    room.nodes += level;
  }
  room.trials = room.probs = room.verified = room.nodes;
  return room;
}

TreeShape::Wish DistinctDrafts::wish(const TokenTree& tree, int node) const {
  const int level = node == TokenTree::kRoot ? 0 : tree.node(node).depth + 1;
  return {BranchBy::kDistinctDraws, widths_[static_cast<std::size_t>(level)]};
}

// [snippet distinct]
void DistinctDrafts::branch(TokenTree& tree, int node, std::span<const double> draft_probs,
                            TreeDraws& draws) {
  const int width = wish(tree, node).count;
  std::span<const double> before = draft_probs;
  TokenId taken = -1;
  for (int k = 0; k < width; k++) {
    const int probs = tree.add_probs();
    const std::span<double> own = tree.probs_to_fill(probs);
    std::ranges::copy(before, own.begin());
    if (k > 0) {
      own[static_cast<std::size_t>(taken)] = 0;
      const double total = std::accumulate(own.begin(), own.end(), 0.0);
      if (!(total > 0)) return draws.skip(width - k);  // q has no more tokens
      for (double& prob : own) prob /= total;
    }
    taken = draws.draw(own);
    tree.add_trial(node, taken, probs, draft_probs[static_cast<std::size_t>(taken)]);
    before = own;
  }
}
// [end snippet distinct]

Likeliest::Likeliest(Plan plan) : plan_(std::move(plan)) {
  std::vector<int> level = {0};
  while (true) {
    std::vector<int> next;
    int looked_at = 0;
    for (const int i : level) {
      const auto& children = plan_[static_cast<std::size_t>(i)].children;
      next.insert(next.end(), children.begin(), children.end());
      looked_at += children.empty() ? 0 : 1;
    }
    if (next.empty()) break;
    room_.levels++;
    room_.nodes += static_cast<int>(next.size());
    room_.width = std::max(room_.width, looked_at);
    level = std::move(next);
  }
  SPECDEC_CHECK(room_.nodes + 1 == std::ssize(plan_), "a plan that is a tree of {} nodes",
                plan_.size());
  room_.trials = room_.verified = room_.nodes;
  planned_.reserve(static_cast<std::size_t>(room_.nodes));
}

const Likeliest::PlanNode& Likeliest::plan_of(int node) const {
  const int planned = node == TokenTree::kRoot ? 0 : planned_[static_cast<std::size_t>(node)];
  return plan_[static_cast<std::size_t>(planned)];
}

TreeShape::Wish Likeliest::wish(const TokenTree& /*tree*/, int node) const {
  return {BranchBy::kLikeliest, static_cast<int>(plan_of(node).children.size())};
}

// [snippet likeliest]
void Likeliest::branch(TokenTree& tree, int node, std::span<const double> draft_probs,
                       TreeDraws& /*draws*/) {
  add_likeliest(tree, node, draft_probs, wish(tree, node).count);
  branched(tree, node);
}

void Likeliest::branched(const TokenTree& tree, int node) {
  const std::vector<int>& children = plan_of(node).children;
  const auto found = static_cast<std::ptrdiff_t>(tree.trials(node).size());
  planned_.insert(planned_.end(), children.begin(), children.begin() + found);
}

void Likeliest::look_at(const TokenTree& tree, int first, std::vector<int>& nodes) {
  nodes.clear();
  for (int node = first; node < tree.size(); node++) {
    if (!plan_of(node).children.empty()) nodes.push_back(node);
  }
}
// [end snippet likeliest]

Likeliest::Plan plan_of_widths(std::span<const int> widths) {
  Likeliest::Plan plan(1);
  std::size_t first = 0;  // of the last level
  for (const int width : widths) {
    const std::size_t end = plan.size();
    for (; first < end; first++) {
      for (int k = 0; k < width; k++) {
        plan[first].children.push_back(static_cast<int>(plan.size()));
        plan.emplace_back();
      }
    }
  }
  return plan;
}

TreeRoom GrownTree::room() const {
  const int nodes = width_ + (levels_ - 1) * width_ * width_;
  return {levels_, nodes, nodes, 0, width_, std::min(verified_, nodes)};
}

TreeShape::Wish GrownTree::wish(const TokenTree& /*tree*/, int /*node*/) const {
  return {BranchBy::kLikeliest, width_};
}

// [snippet grown]
void GrownTree::branch(TokenTree& tree, int node, std::span<const double> draft_probs,
                       TreeDraws& /*draws*/) {
  add_likeliest(tree, node, draft_probs, width_);
}

void GrownTree::look_at(const TokenTree& tree, int first, std::vector<int>& nodes) {
  numbers(first, tree.size(), nodes);
  most_likely(tree, width_, nodes);
}

// No node is likelier than its parent, and a parent comes first among equals: so it is kept, too.
void GrownTree::choose(const TokenTree& tree, std::vector<int>& nodes) const {
  numbers(0, tree.size(), nodes);
  most_likely(tree, verified_, nodes);
}
// [end snippet grown]

}  // namespace specdec
