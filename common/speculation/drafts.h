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

// The drafted tokens of a round, each with the distribution that it was drawn from. They form a
// chain; from stage 8 on they may branch into a tree. All memory is allocated at construction.
class Drafts {
 public:
  // vocab_size: V of the distributions; 0 if there are none, as in greedy drafting. device: null
  // keeps the distributions on the host; otherwise this backend's memory holds them, next to the
  // logits of both models. REQUIRES: the device outlives this object.
  Drafts(const Capacity& capacity, int vocab_size, Backend* device = nullptr);
  // A chain of at most K tokens.
  Drafts(int K, int vocab_size, Backend* device = nullptr)
      : Drafts(Capacity::of_chain(K), vocab_size, device) {}

  // An empty object with the same capacity, whose distributions are in the same kind of memory.
  Drafts alike() const { return Drafts(capacity_, vocab_size_, device_); }

  void clear();

  int size() const { return int_size(tokens_); }
  // The number of tokens on the longest path; size() for a chain.
  int length() const { return nodes_.empty() ? 0 : nodes_.back().depth + 1; }
  const Capacity& capacity() const { return capacity_; }
  std::span<const TokenId> tokens() const { return tokens_; }
  TokenId token(int i) const { return tokens_[i]; }

  bool on_device() const { return device_ != nullptr; }

  // The distribution that token i of a chain was drawn from, [V]. Empty if the token is certain,
  // that is, if its probability is 1. REQUIRES: !on_device().
  std::span<const double> probs(int i) const { return probs(trials_[i]); }

  // The same for every token of a chain, each [V] in device memory; null if the token is certain.
  // REQUIRES: on_device().
  std::span<const double* const> device_probs() const { return device_rows_; }

  // Adds a token that was chosen without randomness, after the last one. REQUIRES, here and for the
  // next four functions: the drafts are a chain, and size() < capacity().nodes.
  void add_certain(TokenId token) { add(token, true, 1); }

  // Adds a token that was drawn from next_probs(), [V], which the caller has filled in on the host.
  // If on_device(), the distribution is copied to the device.
  std::span<double> next_probs();
  void add_drawn(TokenId token);

  // Adds a token that the device drew from next_device_probs(), [V] in its memory.
  double* next_device_probs() const { return device_probs_to_fill(size()); }
  void add_drawn_on_device(TokenId token) { add(token, false, 1); }

  // ---- Used from stage 8 on. Drafts that begin with the same tokens share nodes, so the target
  // computes a shared token once. But the acceptance rule tries each draft: rows are merged, trials
  // are not (Stratos, sections 2 and 2.1). Token i is the token of node i.

  // [snippet nodes-and-trials]
  static constexpr int kRoot = -1;     // the pending token: the parent of the first nodes
  static constexpr int kCertain = -1;  // no distribution: chosen without randomness

  struct Node {
    TokenId token = 0;
    int parent = kRoot;     // smaller than the node's own number
    int depth = 0;          // number of its ancestors, without the root
    double draft_prob = 1;  // of the path that ends here, by the draft model; 1 if unknown
  };
  // One draft's next token, and the distribution that this token was drawn from.
  struct Trial {
    int node = 0;          // the node of the token
    int probs = kCertain;  // the number of the distribution, see add_probs()
  };
  // [end snippet nodes-and-trials]

  const Node& node(int i) const { return nodes_[i]; }
  std::span<const Trial> trials() const { return trials_; }  // in ascending order of parents
  // The trials after a node, or after kRoot, in the order in which they were drafted.
  std::span<const Trial> trials(int parent) const;
  int n_trials() const { return int_size(trials_); }
  // The number of drafts whose path goes through node i. REQUIRES: i is not kRoot.
  int drafts_through(int i) const;
  // The child of a node, or of kRoot, that has this token. kRoot if there is none.
  int child(int parent, TokenId token) const;
  // Segment::parents of a segment with the pending token and these tokens; empty for a chain.
  std::span<const int> parents() const {
    return branches_ ? std::span<const int>(parents_) : std::span<const int>();
  }

  // The distribution that a trial's token was drawn from, [V]; empty if the token is certain.
  // REQUIRES: !on_device().
  std::span<const double> probs(const Trial& trial) const;
  // The same in device memory; null if the token is certain. REQUIRES: on_device().
  const double* device_probs(const Trial& trial) const {
    return trial.probs == kCertain ? nullptr : device_probs_to_fill(trial.probs);
  }

  // Returns the number of a new distribution, which the caller fills in and passes to add_trial().
  int add_probs();
  std::span<double> probs_to_fill(int number);  // [V]. REQUIRES: !on_device()
  // [V] in device memory; the next number's distribution follows it. REQUIRES: on_device().
  double* device_probs_to_fill(int number) const;

  // Adds a token after a node and returns the new node. token_prob: its probability under the draft
  // model. REQUIRES: nodes are added level by level.
  int add_node(int parent, TokenId token, double token_prob);
  // Adds a draft that continues to this node. probs: a number from add_probs(), or kCertain.
  // REQUIRES: trials are added in ascending order of their nodes' parents.
  void add_trial(int node, int probs);

  // Removes all nodes except `kept`, and renumbers these in the same order. REQUIRES: ascending;
  // the parent of each kept node is also kept, or is kRoot.
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
  std::vector<Range> after_;                // [size() + 1] trials after the root, after each node
  std::vector<double> probs_;               // [probs, V]; if on_device(), [V] for next_probs()
  DeviceArray<double> probs_on_device_;     // [probs, V]
  std::vector<const double*> device_rows_;  // [n_trials()]
  int n_probs_ = 0;
  bool branches_ = false;
};

// `count` objects with the same capacity.
std::vector<Drafts> make_drafts(int count, const Capacity& capacity, int vocab_size,
                                Backend* device = nullptr);

}  // namespace specdec
