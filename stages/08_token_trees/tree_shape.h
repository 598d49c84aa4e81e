#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/sampling/random_source.h"
#include "stages/08_token_trees/token_tree.h"

namespace specdec {

// The draws of one level of a tree. Their names tell the drafts of a level apart by their number.
//
// A rule that looks behind the draft which it rejects must not see a number of its own again: then
// the level is a part of the name, too, as the next round's levels begin elsewhere.
class TreeDraws {
 public:
  TreeDraws(RandomSource* random, int position, int first)  // first: the index of the first draw
      : random_(random), position_(position), next_(first) {}

  TokenId draw(std::span<const double> probs) {
    if (random_ == nullptr) {  // temperature 0: all is on one token
      return static_cast<TokenId>(std::ranges::max_element(probs) - probs.begin());
    }
    return random_->token(probs, position_, Purpose::kDraft, next_++);
  }
  // Leaves out the next draws: what follows has the same names as if they were made.
  void skip(int count) { next_ += count; }

 private:
  RandomSource* random_;
  int position_;  // of the level's tokens
  int next_;
};

// How the tree of one request grows. The draft model says what could follow the root, then what
// could follow the nodes of each level; the shape decides what becomes of it.
class TreeShape {
 public:
  virtual ~TreeShape() = default;

  virtual TreeRoom room() const = 0;
  // Whether drafts are drawn from the draft's distribution; otherwise it only ranks tokens.
  virtual bool draws() const = 0;

  virtual void begin() {}
  // Adds trials after a node, or after the root. draft_probs: q there, [V].
  virtual void branch(TokenTree& tree, int node, std::span<const double> draft_probs,
                      TreeDraws& draws) = 0;
  // The same for a sampler on a device, which keeps q: what branch() would ask of q after a node,
  // and, once the trials were added by its answer, what the shape itself remembers of them.
  struct Wish {
    BranchBy by;
    int count;  // of tokens
  };
  virtual Wish wish(const TokenTree& tree, int node) const = 0;
  virtual void branched(const TokenTree& /*tree*/, int /*node*/) {}
  // Of the nodes that the last level brought, first .. tree.size() - 1, those to be looked at.
  virtual void look_at(const TokenTree& tree, int first, std::vector<int>& nodes);
  // Of a tree that is grown, the nodes that are verified: ascending, each with its parent.
  virtual void choose(const TokenTree& tree, std::vector<int>& nodes) const;
};

using MakeTreeShape = std::function<std::unique_ptr<TreeShape>()>;

// `count` drafts by themselves, each token drawn from q (SpecInfer, with one draft model).
class Chains final : public TreeShape {
 public:
  Chains(int count, int levels) : count_(count), levels_(levels) {}

  TreeRoom room() const override;
  bool draws() const override { return true; }
  void branch(TokenTree& tree, int node, std::span<const double> draft_probs,
              TreeDraws& draws) override;
  Wish wish(const TokenTree& tree, int node) const override;

 private:
  int count_, levels_;
};

// After each node of level i, widths[i] drafts that are drawn one after another from what the
// earlier ones left of q: no two are the same.
class DistinctDrafts final : public TreeShape {
 public:
  explicit DistinctDrafts(std::vector<int> widths) : widths_(std::move(widths)) {}

  TreeRoom room() const override;
  bool draws() const override { return true; }
  void branch(TokenTree& tree, int node, std::span<const double> draft_probs,
              TreeDraws& draws) override;
  Wish wish(const TokenTree& tree, int node) const override;

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

  TreeRoom room() const override { return room_; }
  bool draws() const override { return false; }
  void begin() override { planned_.clear(); }
  void branch(TokenTree& tree, int node, std::span<const double> draft_probs,
              TreeDraws& draws) override;
  Wish wish(const TokenTree& tree, int node) const override;
  void branched(const TokenTree& tree, int node) override;
  void look_at(const TokenTree& tree, int first, std::vector<int>& nodes) override;

 private:
  const PlanNode& plan_of(int node) const;

  Plan plan_;
  TreeRoom room_;
  std::vector<int> planned_;  // [nodes of the tree] what each is in the plan
};

// After each node of level i its widths[i] likeliest tokens: "top:3x2x1".
Likeliest::Plan plan_of_widths(std::span<const int> widths);

// The nodes that the draft thinks most likely, as EAGLE-2 chooses them (Li et al. 2024,
// sections 4.1 and 4.2): on each level it looks behind the `width` nodes of the largest
// probability, and of all nodes that it found the `verified` ones of the largest probability are
// kept.
class GrownTree final : public TreeShape {
 public:
  GrownTree(int verified, int width, int levels)
      : verified_(verified), width_(width), levels_(levels) {}

  TreeRoom room() const override;
  bool draws() const override { return false; }
  void branch(TokenTree& tree, int node, std::span<const double> draft_probs,
              TreeDraws& draws) override;
  Wish wish(const TokenTree& tree, int node) const override;
  void look_at(const TokenTree& tree, int first, std::vector<int>& nodes) override;
  void choose(const TokenTree& tree, std::vector<int>& nodes) const override;

 private:
  int verified_, width_, levels_;
};

}  // namespace specdec
