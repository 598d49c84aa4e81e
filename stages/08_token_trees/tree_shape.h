#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/argmax.h"
#include "common/sampling/random_source.h"
#include "common/speculation/draft_shape.h"
#include "kernels/int_size.h"
#include "stages/08_token_trees/token_tree.h"

namespace specdec {

// The random draws for one level of a tree. Each draft of the level has an index of its own.
//
// A rule that looks past a rejected draft must not meet the same random numbers again in the next
// round, which drafts for the same positions. For such a rule the index also contains the level,
// because a position is at another level then.
class TreeDraws {
 public:
  // random: null at temperature 0, where one token has probability 1. races: whether the acceptance
  // rule draws by exponential races. position: of the level's tokens. first: the first index.
  TreeDraws(RandomSource* random, bool races, int position, int first)
      : random_(random), races_(races), position_(position), next_(first) {}

  // Draws a token. If the rule races, uses the noise of the target's race at this position, so the
  // same probs give the same token again.
  TokenId draw(std::span<const double> probs) {
    if (random_ == nullptr || !races_) return draw_apart(probs);
    next_++;
    return random_->race(probs, position_);
  }
  // Draws a token with a random number of its own, even if the rule races.
  TokenId draw_apart(std::span<const double> probs) {
    if (random_ == nullptr) {
      return argmax(probs);
    }
    return random_->token(probs, position_, Purpose::kDraft, next_++);
  }
  // Skips the next draws: later draws get the same index as if these had been made.
  void skip(int count) { next_ += count; }

 private:
  RandomSource* random_;
  bool races_;
  int position_;  // of the level's tokens
  int next_;
};

// How the tree of one request grows. The draft model computes q after the root, then after nodes of
// each level; the shape decides which drafts this adds, and which nodes are continued.
class TreeShape : public DraftShape {
 public:
  // Whether drafts are drawn from q; if not, q only ranks the tokens.
  virtual bool draws() const = 0;

  virtual void begin() {}
  // Adds trials after a node, or after the root. draft_probs: q there, [V].
  virtual void branch(Drafts& tree, int node, std::span<const double> draft_probs,
                      TreeDraws& draws) = 0;
  // For a device that keeps q, these two replace branch(). wish(): how the device chooses tokens
  // after a node, and how many. branched(): tells the shape that these trials have been added.
  struct Wish {
    BranchBy by;
    int count;  // of tokens
  };
  virtual Wish wish(const Drafts& tree, int node) const = 0;
  virtual void branched(const Drafts& /*tree*/, int /*node*/) {}
  // Picks the nodes that are continued from those of the newest level, first .. tree.size() - 1.
  virtual void look_at(const Drafts& tree, int first, std::vector<int>& nodes);
  // Picks the nodes of the finished tree that are verified: ascending, each with its parent.
  virtual void choose(const Drafts& tree, std::vector<int>& nodes) const;
};

using MakeTreeShape = std::function<std::unique_ptr<TreeShape>()>;

// The capacity of rounds with trees of this shape. A K above the shape's levels changes nothing.
RoundCapacity capacity_of(const MakeTreeShape& make_shape);

// `count` independent drafts, each token drawn from q (SpecInfer, with one draft model). If the
// rule races, the first draft after each node shares the target's noise.
class Chains final : public TreeShape {
 public:
  Chains(int count, int levels) : count_(count), levels_(levels) {}

  int levels() const override { return levels_; }
  Capacity capacity(int levels) const override;
  bool draws() const override { return true; }
  void branch(Drafts& tree, int node, std::span<const double> draft_probs,
              TreeDraws& draws) override;
  Wish wish(const Drafts& tree, int node) const override;

 private:
  int count_, levels_;
};

// Sibling drafts without replacement: after each node of level i, widths[i] drafts, each drawn from
// what the earlier ones left of q. So no two siblings are equal.
class DistinctDrafts final : public TreeShape {
 public:
  explicit DistinctDrafts(std::vector<int> widths) : widths_(std::move(widths)) {}

  int levels() const override { return int_size(widths_); }
  Capacity capacity(int levels) const override;
  bool draws() const override { return true; }
  void branch(Drafts& tree, int node, std::span<const double> draft_probs,
              TreeDraws& draws) override;
  Wish wish(const Drafts& tree, int node) const override;

 private:
  std::vector<int> widths_;
};

// The likeliest tokens of q after each node, without randomness; a plan says how many.
class Likeliest final : public TreeShape {
 public:
  // Node 0 of a plan is the root. The children of a node are ordered by rank, the likeliest first.
  struct PlanNode {
    std::vector<int> children;
  };
  using Plan = std::vector<PlanNode>;

  explicit Likeliest(Plan plan);

  int levels() const override { return int_size(capacities_) - 1; }
  Capacity capacity(int levels) const override { return capacities_[levels]; }
  bool draws() const override { return false; }
  void begin() override { planned_.clear(); }
  void branch(Drafts& tree, int node, std::span<const double> draft_probs,
              TreeDraws& draws) override;
  Wish wish(const Drafts& tree, int node) const override;
  void branched(const Drafts& tree, int node) override;
  void look_at(const Drafts& tree, int first, std::vector<int>& nodes) override;

 private:
  const PlanNode& plan_of(int node) const;

  Plan plan_;
  std::vector<Capacity> capacities_;  // [levels + 1]
  std::vector<int> planned_;          // [nodes of the tree] the node of the plan for each of them
};

// The plan with widths[i] children after each node of level i: "top:3x2x1".
Likeliest::Plan plan_of_widths(std::span<const int> widths);

// The likeliest nodes under the draft model, as in EAGLE-2 (Li et al. 2024, sections 4.1 and 4.2).
// On each level, the `width` nodes with the largest draft_prob are continued. Of all nodes found,
// the `verified` ones with the largest draft_prob are kept.
class GrownTree final : public TreeShape {
 public:
  GrownTree(int verified, int width, int levels)
      : verified_(verified), width_(width), levels_(levels) {}

  int levels() const override { return levels_; }
  Capacity capacity(int levels) const override;
  bool draws() const override { return false; }
  void branch(Drafts& tree, int node, std::span<const double> draft_probs,
              TreeDraws& draws) override;
  Wish wish(const Drafts& tree, int node) const override;
  void look_at(const Drafts& tree, int first, std::vector<int>& nodes) override;
  void choose(const Drafts& tree, std::vector<int>& nodes) const override;

 private:
  int verified_, width_, levels_;
};

}  // namespace specdec
