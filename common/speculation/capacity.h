#pragma once
#include <algorithm>
#include <functional>

namespace specdec {

// What a round takes at most; memory is taken for as much at construction.
struct Capacity {
  int levels = 0;    // tokens of a path; of a chain K
  int nodes = 0;     // tokens that are drafted, before some are left out
  int trials = 0;    // drafts, of which several may have the same token after the same path
  int probs = 0;     // distributions that drafts are drawn from
  int width = 1;     // rows of one pass of the draft model, with logits
  int verified = 0;  // tokens that the target gets, beside the pending one

  int rows() const { return verified + 1; }        // of the target's pass
  int branches() const { return nodes - levels; }  // tokens that are not on one longest path

  // Of up to K tokens in a row.
  static Capacity of_chain(int K) {
    return {.levels = K, .nodes = K, .trials = K, .probs = K, .verified = K};
  }
};

// Enough for either.
inline Capacity larger(const Capacity& a, const Capacity& b) {
  return {.levels = std::max(a.levels, b.levels),
          .nodes = std::max(a.nodes, b.nodes),
          .trials = std::max(a.trials, b.trials),
          .probs = std::max(a.probs, b.probs),
          .width = std::max(a.width, b.width),
          .verified = std::max(a.verified, b.verified)};
}

// Of a round, by its K.
using RoundCapacity = std::function<Capacity(int spec_length)>;

}  // namespace specdec
