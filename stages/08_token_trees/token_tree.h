#pragma once
#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "common/base/token_id.h"
#include "kernels/ops.h"

namespace specdec {

// The index of a draw (RandomSource) that tells it apart from those of other drafts of its level
// and, where a rule needs that, from those of other levels.
inline int draw_index(int level, int draft) { return level * 4096 + draft; }

// What a tree takes at most.
struct TreeRoom {
  int levels = 0;
  int nodes = 0;  // drafted, before some are left out
  int trials = 0;
  int probs = 0;     // distributions that drafts were drawn from
  int width = 1;     // nodes of a level that the draft model looks at
  int verified = 0;  // nodes that the target gets
};

// [snippet token-tree]
// The drafts of one round. Those that begin with the same tokens share their nodes, so the target
// computes such a token once. But each draft is tried by itself: what is merged is rows, not trials
// (Stratos, sections 2 and 2.1).
class TokenTree {
 public:
  static constexpr int kRoot = -1;     // the pending token, which the first tokens follow
  static constexpr int kCertain = -1;  // no distribution: chosen without chance

  struct Node {
    TokenId token = 0;
    int parent = kRoot;     // smaller than the node's own number
    int depth = 0;          // nodes that it follows
    double draft_prob = 1;  // of the path from the root to it, by the draft model
  };
  // A draft's token after some node, and what it was drawn from.
  struct Trial {
    int node = 0;          // of the token
    int probs = kCertain;  // which distribution: probs()
  };
  // [end snippet token-tree]

  // Takes all memory. vocab_size: V of the distributions. device: null, or the backend in whose
  // memory they are to be, beside the logits that they are made of and judged by; it outlives this
  // object.
  TokenTree(const TreeRoom& room, int vocab_size, Backend* device = nullptr)
      : vocab_size_(vocab_size), on_device_(device != nullptr), max_probs_(room.probs) {
    if (device) {
      probs_on_device_ = DeviceArray<double>(*device, row(room.probs));
    } else {
      probs_.resize(row(room.probs));
    }
    nodes_.reserve(static_cast<std::size_t>(room.nodes));
    trials_.reserve(static_cast<std::size_t>(room.trials));
    after_.reserve(static_cast<std::size_t>(room.nodes) + 1);
    clear();
  }

  void clear() {
    nodes_.clear();
    trials_.clear();
    after_.assign(1, {});
    n_probs_ = 0;
  }

  int size() const { return static_cast<int>(nodes_.size()); }
  int max_nodes() const { return static_cast<int>(nodes_.capacity()); }
  const Node& node(int i) const { return nodes_[static_cast<std::size_t>(i)]; }
  int depth() const { return nodes_.empty() ? 0 : nodes_.back().depth + 1; }  // levels
  int n_trials() const { return static_cast<int>(trials_.size()); }

  // What was drafted after a node, or after the root, in the order in which it was drafted.
  std::span<const Trial> trials(int parent) const {
    const auto [first, count] = after_[static_cast<std::size_t>(parent + 1)];
    return std::span(trials_).subspan(static_cast<std::size_t>(first),
                                      static_cast<std::size_t>(count));
  }
  // How many drafts go through a node. REQUIRES: it is not the root.
  int drafts_through(int i) const {
    return static_cast<int>(std::ranges::count(trials(node(i).parent), i, &Trial::node));
  }
  std::span<const Trial> trials() const { return trials_; }  // after all nodes, in their order

  bool on_device() const { return on_device_; }
  // [V], what a trial's token was drawn from; empty where it was certain. REQUIRES: !on_device().
  std::span<const double> probs(const Trial& trial) const {
    SPECDEC_CHECK(!on_device(), "distributions in host memory");
    if (trial.probs == kCertain) return {};
    return std::span(probs_).subspan(row(trial.probs), static_cast<std::size_t>(vocab_size_));
  }
  // The same in device memory; null where it was certain. REQUIRES: on_device().
  const double* device_probs(const Trial& trial) const {
    return trial.probs == kCertain ? nullptr : device_probs_to_fill(trial.probs);
  }
  // The parent of each node, as the forward pass wants them (Segment::parents), behind a first
  // token of the segment, the pending one.
  void segment_parents(std::vector<int>& parents) const {
    parents.assign(1, -1);
    for (const Node& node : nodes_) parents.push_back(node.parent + 1);
  }

  // A distribution to be filled in, for the trials that are added with its number.
  int add_probs() {
    SPECDEC_CHECK(n_probs_ < max_probs_, "room for {} distributions", max_probs_);
    return n_probs_++;
  }
  std::span<double> probs_to_fill(int number) {
    SPECDEC_CHECK(!on_device(), "distributions in host memory");
    return std::span(probs_).subspan(row(number), static_cast<std::size_t>(vocab_size_));
  }
  // [V] in device memory; behind it, that of the next number. REQUIRES: on_device().
  double* device_probs_to_fill(int number) const {
    SPECDEC_CHECK(on_device(), "distributions in device memory");
    return probs_on_device_.data() + row(number);
  }

  // Forgets all nodes but these, which are numbered anew in their order. REQUIRES: ascending; each
  // has its parent among them, or follows the root.
  void prune(std::span<const int> kept);

  // A draft goes on with `token` after `parent`. Returns the node of the token, a new one unless an
  // earlier draft had the same. REQUIRES: no other parent got a trial since this one's first; in
  // ascending order of parents, level after level.
  int add_trial(int parent, TokenId token, int probs, double token_prob);

  // The node of a token after a node; kRoot: there is none.
  int child(int parent, TokenId token) const {
    for (const Trial& trial : trials(parent)) {
      if (node(trial.node).token == token) return trial.node;
    }
    return kRoot;
  }

 private:
  struct Range {
    int first = 0, count = 0;
  };

  std::size_t row(int number) const {
    return static_cast<std::size_t>(number) * static_cast<std::size_t>(vocab_size_);
  }
  int add_node(int parent, TokenId token, double token_prob) {
    SPECDEC_CHECK(nodes_.size() < nodes_.capacity(), "at most {} nodes", nodes_.capacity());
    Node added{token, parent};
    added.draft_prob = token_prob;
    if (parent != kRoot) {
      added.depth = node(parent).depth + 1;
      added.draft_prob *= node(parent).draft_prob;
    }
    SPECDEC_CHECK(nodes_.empty() || nodes_.back().depth <= added.depth, "level after level");
    nodes_.push_back(added);
    after_.push_back({});
    return size() - 1;
  }

  int vocab_size_;
  bool on_device_;
  std::vector<Node> nodes_;
  std::vector<Trial> trials_;
  std::vector<Range> after_;             // [size() + 1] trials after the root, after each node
  std::vector<double> probs_;            // [max_probs, V]; with a device none
  DeviceArray<double> probs_on_device_;  // [max_probs, V]
  int max_probs_;
  int n_probs_ = 0;
};

}  // namespace specdec
