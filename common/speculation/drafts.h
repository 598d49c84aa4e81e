#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "common/base/token_id.h"
#include "common/speculation/capacity.h"
#include "kernels/int_size.h"
#include "kernels/ops.h"

namespace specdec {

// The tokens drafted in a round, and for each the distribution that it was drawn from. They follow
// one another: a chain. From stage 8 on they may branch. All memory is taken at construction.
class Drafts {
 public:
  // vocab_size 0: only tokens without a distribution, as greedy drafting makes them. device: null
  // keeps distributions on the host; otherwise they are in this backend's memory, beside the logits
  // that they are made of and judged by. It outlives this object.
  Drafts(const Capacity& capacity, int vocab_size, Backend* device = nullptr);
  // A chain of at most K tokens.
  Drafts(int K, int vocab_size, Backend* device = nullptr)
      : Drafts(Capacity::of_chain(K), vocab_size, device) {}

  // No tokens yet, with room for as many, in the same memory.
  Drafts alike() const { return Drafts(capacity_, vocab_size_, device_); }

  void clear();

  int size() const { return int_size(tokens_); }
  // Tokens of the longest path; of a chain, size().
  int length() const { return nodes_.empty() ? 0 : nodes_.back().depth + 1; }
  const Capacity& capacity() const { return capacity_; }
  std::span<const TokenId> tokens() const { return tokens_; }
  TokenId token(int i) const { return tokens_[i]; }

  bool on_device() const { return device_ != nullptr; }

  // draft_probs of token i of a chain, [V]; empty where it was certain: probability 1, all others
  // 0. REQUIRES: !on_device().
  std::span<const double> probs(int i) const { return probs(trials_[i]); }

  // For each token of a chain its draft_probs, [V] in device memory, or null where it was certain.
  // REQUIRES: on_device().
  std::span<const double* const> device_probs() const { return device_rows_; }

  // Adds a token that was chosen, not drawn, after the last one. REQUIRES, as for all below: a
  // chain, size() < capacity().nodes.
  void add_certain(TokenId token) { add(token, true, 1); }

  // Adds a token that was drawn from what next_probs() [V] holds; on a device, what was made on the
  // host is copied there.
  std::span<double> next_probs();
  void add_drawn(TokenId token);

  // Adds a token that was drawn, on the device, from what next_device_probs() [V] holds.
  double* next_device_probs() const { return device_probs_to_fill(size()); }
  void add_drawn_on_device(TokenId token) { add(token, false, 1); }

  // ---- Used from stage 8 on. Drafts that begin with the same tokens share their nodes, so the
  // target computes such a token once. But each draft is tried by itself: what is merged is rows,
  // not trials (Stratos, sections 2 and 2.1). Token i is that of node i.

  // [snippet nodes-and-trials]
  static constexpr int kRoot = -1;     // the pending token, which the first tokens follow
  static constexpr int kCertain = -1;  // no distribution: chosen without chance

  struct Node {
    TokenId token = 0;
    int parent = kRoot;     // smaller than the node's own number
    int depth = 0;          // nodes that it follows
    double draft_prob = 1;  // of the path from the root to it, by the draft model; 1: unknown
  };
  // A draft's token after some node, and what it was drawn from.
  struct Trial {
    int node = 0;          // of the token
    int probs = kCertain;  // which distribution: probs()
  };
  // [end snippet nodes-and-trials]

  const Node& node(int i) const { return nodes_[i]; }
  std::span<const Trial> trials() const { return trials_; }  // after all nodes, in their order
  // What was drafted after a node, or after the root, in the order in which it was drafted.
  std::span<const Trial> trials(int parent) const;
  int n_trials() const { return int_size(trials_); }
  // How many drafts go through a node. REQUIRES: it is not the root.
  int drafts_through(int i) const;
  // The node of a token after a node; kRoot: there is none.
  int child(int parent, TokenId token) const;
  // Of a segment with the pending token and these (Segment::parents); empty: a chain.
  std::span<const int> parents() const {
    return branches_ ? std::span<const int>(parents_) : std::span<const int>();
  }

  // [V], what a trial's token was drawn from; empty where it was certain. REQUIRES: !on_device().
  std::span<const double> probs(const Trial& trial) const;
  // The same in device memory; null where it was certain. REQUIRES: on_device().
  const double* device_probs(const Trial& trial) const {
    return trial.probs == kCertain ? nullptr : device_probs_to_fill(trial.probs);
  }

  // A distribution to be filled in, for the trials that are added with its number.
  int add_probs();
  std::span<double> probs_to_fill(int number);
  // [V] in device memory, followed by that of the next number. REQUIRES: on_device().
  double* device_probs_to_fill(int number) const;

  // A new token after a node. token_prob: by the draft model. REQUIRES: level after level.
  int add_node(int parent, TokenId token, double token_prob);
  // A draft goes on to this node. REQUIRES: no other parent got a trial since the first one of this
  // node's parent; in ascending order of parents.
  void add_trial(int node, int probs);

  // Forgets all nodes but these, which are numbered anew in their order. REQUIRES: ascending; each
  // has its parent among them, or follows the root.
  void prune(std::span<const int> kept);

 private:
  struct Range {
    int first = 0, count = 0;
  };

  std::size_t row(int number) const {
    return static_cast<std::size_t>(number) * static_cast<std::size_t>(vocab_size_);
  }
  void add(TokenId token, bool certain, double token_prob);
  void note(const Node& node);
  void note(const Trial& trial);

  Capacity capacity_;
  int vocab_size_;
  Backend* device_;
  std::vector<TokenId> tokens_;  // [size()]
  std::vector<Node> nodes_;      // [size()]
  std::vector<int> parents_;     // [size() + 1]
  std::vector<Trial> trials_;
  std::vector<Range> after_;             // [size() + 1] trials after the root, after each node
  std::vector<double> probs_;            // [probs, V]; with a device [V], for what the host makes
  DeviceArray<double> probs_on_device_;  // [probs, V]
  std::vector<const double*> device_rows_;  // [n_trials()]
  int n_probs_ = 0;
  bool branches_ = false;
};

// `count` Drafts alike.
std::vector<Drafts> make_drafts(int count, const Capacity& capacity, int vocab_size,
                                Backend* device = nullptr);

}  // namespace specdec
