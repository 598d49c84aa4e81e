#include "stages/08_token_trees/tree_shape.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/int_size.h"

namespace specdec {
namespace {

// Adds the `count` likeliest tokens of positive probability after a node, the lower id first among
// equals.
void add_likeliest(Drafts& tree, int node, std::span<const double> probs, int count) {
  for (int rank = 0; rank < count; rank++) {
    TokenId best = -1;
    for (TokenId token = 0; token < std::ssize(probs); token++) {
      const double prob = probs[token];
      const bool better = best < 0 || prob > probs[best];
      if (prob > 0 && better && tree.child(node, token) == Drafts::kRoot) best = token;
    }
    if (best < 0) return;
    add_trial(tree, node, best, Drafts::kCertain, probs[best]);
  }
}

// Sets `all` to the numbers first .. end - 1.
void numbers(int first, int end, std::vector<int>& all) {
  all.resize(std::max(0, end - first));
  std::iota(all.begin(), all.end(), first);
}

// Keeps the `count` nodes with the largest draft_prob, the earlier ones first among equals.
// REQUIRES: nodes are in ascending order; so is the result.
void most_likely(const Drafts& tree, int count, std::vector<int>& nodes) {
  if (std::ssize(nodes) <= count) return;
  std::ranges::stable_sort(nodes, std::ranges::greater{},
                           [&](int node) { return tree.node(node).draft_prob; });
  nodes.resize(count);
  std::ranges::sort(nodes);
}

}  // namespace

void TreeShape::look_at(const Drafts& tree, int first, std::vector<int>& nodes) {
  numbers(first, tree.size(), nodes);
}

void TreeShape::choose(const Drafts& tree, std::vector<int>& nodes) const {
  numbers(0, tree.size(), nodes);
}

RoundCapacity capacity_of(const MakeTreeShape& make_shape) {
  const std::shared_ptr<const TreeShape> shape = make_shape();
  return [shape](int K) { return shape->capacity(std::min(K, shape->levels())); };
}

Capacity Chains::capacity(int levels) const {
  if (levels == 0) return {};
  const int n = count_ * levels;
  return {levels, n, n, n - count_ + 1, count_, n};
}

TreeShape::Wish Chains::wish(const Drafts& tree, int node) const {
  return {BranchBy::kDraws, node == Drafts::kRoot ? count_ : tree.drafts_through(node)};
}

// [snippet chains]
void Chains::branch(Drafts& tree, int node, std::span<const double> draft_probs, TreeDraws& draws) {
  const int drafts = wish(tree, node).count;
  const int probs = tree.add_probs();
  std::ranges::copy(draft_probs, tree.probs_to_fill(probs).begin());
  for (int k = 0; k < drafts; k++) {
    const TokenId token = k == 0 ? draws.draw(draft_probs) : draws.draw_apart(draft_probs);
    add_trial(tree, node, token, probs, draft_probs[token]);
  }
}
// [end snippet chains]

Capacity DistinctDrafts::capacity(int levels) const {
  Capacity capacity{.levels = levels};
  int level = 1;
  for (int i = 0; i < levels; i++) {
    capacity.width = level;
    level *= widths_[i];
    capacity.nodes += level;
  }
  capacity.trials = capacity.probs = capacity.verified = capacity.nodes;
  return capacity;
}

TreeShape::Wish DistinctDrafts::wish(const Drafts& tree, int node) const {
  const int level = node == Drafts::kRoot ? 0 : tree.node(node).depth + 1;
  return {BranchBy::kDistinctDraws, widths_[level]};
}

void DistinctDrafts::branch(Drafts& tree, int node, std::span<const double> draft_probs,
                            TreeDraws& draws) {
  const int width = wish(tree, node).count;
  std::span<const double> before = draft_probs;
  TokenId taken = -1;
  for (int k = 0; k < width; k++) {
    const int probs = tree.add_probs();
    const std::span<double> own = tree.probs_to_fill(probs);
    std::ranges::copy(before, own.begin());
    if (k > 0) {
      own[taken] = 0;
      const double total = std::accumulate(own.begin(), own.end(), 0.0);
      if (!(total > 0)) return draws.skip(width - k);  // q has no other token
      for (double& prob : own) prob /= total;
    }
    taken = draws.draw(own);
    add_trial(tree, node, taken, probs, draft_probs[taken]);
    before = own;
  }
}

Likeliest::Likeliest(Plan plan) : plan_(std::move(plan)), capacities_(1) {
  std::vector<int> level = {0};
  while (true) {
    std::vector<int> next;
    int looked_at = 0;
    for (const int i : level) {
      const auto& children = plan_[i].children;
      next.insert(next.end(), children.begin(), children.end());
      looked_at += children.empty() ? 0 : 1;
    }
    if (next.empty()) break;
    Capacity capacity = capacities_.back();
    capacity.levels++;
    capacity.nodes += int_size(next);
    capacity.trials = capacity.verified = capacity.nodes;
    capacity.width = std::max(capacity.width, looked_at);
    capacities_.push_back(capacity);
    level = std::move(next);
  }
  SPECDEC_CHECK(capacities_.back().nodes + 1 == std::ssize(plan_),
                "a plan that is a tree of {} nodes", plan_.size());
  planned_.reserve(plan_.size());
}

const Likeliest::PlanNode& Likeliest::plan_of(int node) const {
  const int planned = node == Drafts::kRoot ? 0 : planned_[node];
  return plan_[planned];
}

TreeShape::Wish Likeliest::wish(const Drafts& /*tree*/, int node) const {
  return {BranchBy::kLikeliest, int_size(plan_of(node).children)};
}

void Likeliest::branch(Drafts& tree, int node, std::span<const double> draft_probs,
                       TreeDraws& /*draws*/) {
  add_likeliest(tree, node, draft_probs, wish(tree, node).count);
  branched(tree, node);
}

void Likeliest::branched(const Drafts& tree, int node) {
  const std::vector<int>& children = plan_of(node).children;
  const auto found = static_cast<std::ptrdiff_t>(tree.trials(node).size());
  planned_.insert(planned_.end(), children.begin(), children.begin() + found);
}

void Likeliest::look_at(const Drafts& tree, int first, std::vector<int>& nodes) {
  nodes.clear();
  for (int node = first; node < tree.size(); node++) {
    if (!plan_of(node).children.empty()) nodes.push_back(node);
  }
}

Likeliest::Plan plan_of_widths(std::span<const int> widths) {
  Likeliest::Plan plan(1);
  std::size_t first = 0;  // of the last level
  for (const int width : widths) {
    const std::size_t end = plan.size();
    for (; first < end; first++) {
      for (int k = 0; k < width; k++) {
        plan[first].children.push_back(int_size(plan));
        plan.emplace_back();
      }
    }
  }
  return plan;
}

Capacity GrownTree::capacity(int levels) const {
  if (levels == 0) return {};
  const int nodes = width_ + (levels - 1) * width_ * width_;
  return {levels, nodes, nodes, 0, width_, std::min(verified_, nodes)};
}

TreeShape::Wish GrownTree::wish(const Drafts& /*tree*/, int /*node*/) const {
  return {BranchBy::kLikeliest, width_};
}

// [snippet grown]
void GrownTree::branch(Drafts& tree, int node, std::span<const double> draft_probs,
                       TreeDraws& /*draws*/) {
  add_likeliest(tree, node, draft_probs, width_);
}

void GrownTree::look_at(const Drafts& tree, int first, std::vector<int>& nodes) {
  numbers(first, tree.size(), nodes);
  most_likely(tree, width_, nodes);
}

// No node is likelier than its parent, and a parent comes first among equals. So the parent of a
// kept node is kept, too.
void GrownTree::choose(const Drafts& tree, std::vector<int>& nodes) const {
  numbers(0, tree.size(), nodes);
  most_likely(tree, verified_, nodes);
}
// [end snippet grown]

}  // namespace specdec
