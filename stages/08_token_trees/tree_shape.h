#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/argmax.h"
#include "common/sampling/random_source.h"
#include "kernels/int_size.h"
#include "stages/08_token_trees/token_tree.h"

namespace specdec {

// The draws of one level of a tree. Their names tell the drafts of a level apart by their number.
//
// A rule that looks past the draft which it rejects must not see a number of its own again: then
// the level is a part of the name, too, as the next round's levels begin elsewhere.
class TreeDraws {
 public:
  // random: null at temperature 0, where all is on one token; races: of the rule; first: the index
  // of the first draw.
  TreeDraws(RandomSource* random, bool races, int position, int first)
      : random_(random), races_(races), position_(position), next_(first) {}

  // Where the rule races, by the noise that the target's race has: the same probs give the same
  // token again.
  TokenId draw(std::span<const double> probs) {
    if (random_ == nullptr || !races_) return draw_apart(probs);
    next_++;
    return random_->race(probs, position_);
  }
  // With a number of its own in any case.
  TokenId draw_apart(std::span<const double> probs) {
    if (random_ == nullptr) {
      return argmax(probs);
    }
    return random_->token(probs, position_, Purpose::kDraft, next_++);
  }
  // Leaves out the next draws: what follows has the same names as if they were made.
  void skip(int count) { next_ += count; }

 private:
  RandomSource* random_;
  bool races_;
  int position_;  // of the level's tokens
  int next_;
};

// How the tree of one request grows. The draft model says what could follow the root, then what
// could follow the nodes of each level; the shape decides what becomes of it.
class TreeShape {
 public:
  virtual ~TreeShape() = default;

  virtual int levels() const = 0;  // the most
  // What a tree of at most this many levels takes. REQUIRES: no more than levels().
  virtual Capacity capacity(int levels) const = 0;
  // Whether drafts are drawn from the draft's distribution; otherwise it only ranks tokens.
  virtual bool draws() const = 0;

  virtual void begin() {}
  // Adds trials after a node, or after the root. draft_probs: q there, [V].
  virtual void branch(Drafts& tree, int node, std::span<const double> draft_probs,
                      TreeDraws& draws) = 0;
  // The same for a sampler on a device, which keeps q: what branch() would ask of q after a node,
  // and, once the trials were added by its answer, what the shape itself remembers of them.
  struct Wish {
    BranchBy by;
    int count;  // of tokens
  };
  virtual Wish wish(const Drafts& tree, int node) const = 0;
  virtual void branched(const Drafts& /*tree*/, int /*node*/) {}
  // Of the nodes that the last level brought, first .. tree.size() - 1, those to be looked at.
  virtual void look_at(const Drafts& tree, int first, std::vector<int>& nodes);
  // Of a tree that is grown, the nodes that are verified: ascending, each with its parent.
  virtual void choose(const Drafts& tree, std::vector<int>& nodes) const;
};

using MakeTreeShape = std::function<std::unique_ptr<TreeShape>()>;

// Of rounds with trees of such a shape; K beyond its levels changes nothing.
RoundCapacity capacity_of(const MakeTreeShape& make_shape);

// `count` drafts by themselves, each token drawn from q (SpecInfer, with one draft model). Where
// the rule races, the first draft after each node shares the target's noise.
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

// After each node of level i, widths[i] drafts that are drawn one after another from what the
// earlier ones left of q: no two are the same.
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

// The likeliest tokens of q after each node, without chance: as many as a plan of the tree says.
class Likeliest final : public TreeShape {
 public:
  // Node 0 of a plan is the root; the children of a node come in the order of their ranks.
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
  std::vector<int> planned_;          // [nodes of the tree] what each is in the plan
};

// After each node of level i its widths[i] likeliest tokens: "top:3x2x1".
Likeliest::Plan plan_of_widths(std::span<const int> widths);

// The nodes that the draft thinks most likely, as EAGLE-2 chooses them (Li et al. 2024,
// sections 4.1 and 4.2): on each level it continues the `width` nodes of the largest
// probability, and of all nodes that it found the `verified` ones of the largest probability are
// kept.
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
