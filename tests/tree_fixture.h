#pragma once
#include <algorithm>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "tests/fresh_cache.h"

namespace specdec {

// A tree of random tokens and random shape: each node follows any earlier one, or none.
struct RandomTree {
  RandomTree(int n_nodes, int vocab_size, std::mt19937& random)
      : tokens(random_tokens(n_nodes, vocab_size, static_cast<unsigned>(random()))) {
    for (int node = 0; node < n_nodes; node++) {
      parents.push_back(static_cast<int>(random() % static_cast<unsigned>(node + 1)) - 1);
    }
  }

  int size() const { return static_cast<int>(tokens.size()); }
  // The nodes from the first of its branch to this one.
  std::vector<int> path(int node) const {
    std::vector<int> nodes;
    for (; node >= 0; node = parents[static_cast<std::size_t>(node)]) nodes.push_back(node);
    std::ranges::reverse(nodes);
    return nodes;
  }
  std::vector<TokenId> tokens_of(std::span<const int> nodes) const {
    std::vector<TokenId> some;
    for (const int node : nodes) some.push_back(tokens[static_cast<std::size_t>(node)]);
    return some;
  }

  std::vector<TokenId> tokens;
  std::vector<int> parents;
};

// Appends a tree to a sequence, in segments of up to so many tokens. Returns all nodes' logits.
inline HostRows append_tree(Engine& engine, SequenceId sequence, const RandomTree& tree, int most) {
  HostRows rows;
  const LogitsBuffer logits(*engine.llama, most);
  for (int first = 0; first < tree.size();) {
    const int count = std::min(most, tree.size() - first), end = first + count;
    engine.llama->forward(
        Segment{sequence, std::span(tree.tokens).subspan(std::size_t(first), std::size_t(count)),
                count, std::span(tree.parents).first(std::size_t(end))},
        logits.rows(0, count));
    for (auto& row : host_rows(*engine.backend, logits.rows(0, count))) rows.push_back(row);
    first = end;
  }
  return rows;
}

// What the engine says after the context and a path, each token by a pass of its own.
inline std::vector<float> say_after(Engine& engine, std::span<const TokenId> context,
                                    std::span<const TokenId> path) {
  const SequenceId sequence = engine.llama->create();
  if (!context.empty()) engine.forward(sequence, context, 0);
  HostRows row;
  for (const TokenId token : path) row = engine.forward(sequence, std::span(&token, 1), 1);
  engine.llama->release(sequence);
  return row.at(0);
}

// Expects every node of a random tree behind the context to say what its path says, fed token by
// token; and what keep() leaves to be, bit by bit, what the kept path leaves when it is fed alone.
// The reference is an engine on the same kind of backend.
inline void expect_tree_equals_paths(Engine& engine, Engine& reference,
                                     std::span<const TokenId> context, int n_nodes, int most,
                                     std::mt19937& random) {
  Llama& llama = *engine.llama;
  const RandomTree tree(n_nodes, llama.vocab_size(), random);
  const SequenceId sequence = llama.create();
  if (!context.empty()) engine.forward(sequence, context, 0);
  const HostRows rows = append_tree(engine, sequence, tree, most);
  for (int node = 0; node < n_nodes; node++) {
    const auto path = tree.path(node);
    ASSERT_TRUE(
        equal_bits(rows[std::size_t(node)], say_after(reference, context, tree.tokens_of(path))))
        << "node " << node << " at depth " << path.size() - 1 << " behind " << context.size()
        << " tokens";
  }

  const std::vector<int> path =
      tree.path(static_cast<int>(random() % static_cast<unsigned>(n_nodes)));
  std::vector<int> kept;
  for (const int node : path) kept.push_back(static_cast<int>(context.size()) + node);
  llama.keep(sequence, static_cast<int>(context.size()), kept);
  ASSERT_EQ(llama.length(sequence), std::ssize(context) + std::ssize(path));
  poison_beyond(*engine.cache, sequence);

  const SequenceId fresh = reference.llama->create();
  if (!context.empty()) reference.forward(fresh, context, 0);
  reference.forward(fresh, tree.tokens_of(path), 0);
  ASSERT_TRUE(
      equal_bits(cached_values(*engine.cache, sequence), cached_values(*reference.cache, fresh)));
  const TokenId next = 1;
  ASSERT_TRUE(equal_bits(engine.forward(sequence, std::span(&next, 1), 1)[0],
                         reference.forward(fresh, std::span(&next, 1), 1)[0]));
  reference.llama->release(fresh);
  llama.release(sequence);
}

}  // namespace specdec
