#pragma once
#include <algorithm>
#include <functional>

namespace specdec {

// How much memory is needed at most. Buffers and caches are allocated for this much at
// construction.
struct Capacity {
  // One round.
  int levels = 0;    // tokens on the longest path; K for a chain
  int nodes = 0;     // drafted tokens, including those that are pruned before verification
  int trials = 0;    // drafts; several may have the same token after the same path
  int probs = 0;     // distributions that drafts are drawn from
  int width = 1;     // rows of logits in one pass of the draft model
  int verified = 0;  // drafted tokens that the target verifies

  // A run.
  int requests = 1;  // that run at a time
  int context = 0;   // positions of the longest request, drafts included
  int pages = 0;     // of the draft model's paged cache; 0: enough for one request

  int rows() const { return verified + 1; }        // of the target's pass, with the pending token
  int branches() const { return nodes - levels; }  // drafted tokens outside one longest path

  // For a chain of up to K tokens.
  static Capacity of_chain(int K) {
    return {.levels = K, .nodes = K, .trials = K, .probs = K, .verified = K};
  }
};

// The larger of each member: enough for a round that needs `a` and for one that needs `b`.
inline Capacity larger(const Capacity& a, const Capacity& b) {
  return {.levels = std::max(a.levels, b.levels),
          .nodes = std::max(a.nodes, b.nodes),
          .trials = std::max(a.trials, b.trials),
          .probs = std::max(a.probs, b.probs),
          .width = std::max(a.width, b.width),
          .verified = std::max(a.verified, b.verified),
          .requests = std::max(a.requests, b.requests),
          .context = std::max(a.context, b.context),
          .pages = std::max(a.pages, b.pages)};
}

// Returns the capacity of a round with K = spec_length.
using RoundCapacity = std::function<Capacity(int spec_length)>;

}  // namespace specdec
