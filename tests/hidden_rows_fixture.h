#pragma once
#include <map>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "stages/programs/check/observing_backend.h"
#include "tests/tree_fixture.h"

namespace specdec {

// The residual stream of all tokens at all places, by an observer of the operations of one pass:
// [places][T].
inline std::map<int, HostRows> observed_rows(Engine& engine, std::span<const TokenId> tokens) {
  std::map<int, HostRows> rows;
  ObservingBackend observing(engine.model, [&](TensorKind kind, int layer, ConstDeviceRows seen) {
    const HostRows values = host_rows(*engine.backend, seen);
    if (kind == TensorKind::kEmbedding) rows[0] = values;
    if (kind == TensorKind::kResidual) rows[layer + 1] = values;
    if (kind == TensorKind::kFinalNorm) rows[Outputs::kAfterNorm] = values;
  });
  engine.llama->compute_through(observing);
  engine.prefill(tokens);
  engine.llama->compute_through(*engine.backend);
  return rows;
}

// What a pass hands out, on the host.
struct HandedOut {
  HostRows logits;
  HostRows hidden;  // [rows, places * d_model]
};

// Rows of the residual stream at some places, with a gap after each.
inline HandedOut hand_out(Engine& engine, std::span<const Segment> batch,
                          std::span<const int> places) {
  int n_logits = 0, n_hidden = 0;
  for (const Segment& segment : batch) {
    n_logits += segment.logits_rows;
    n_hidden += segment.hidden.rows;
  }
  const LogitsBuffer logits(*engine.llama, n_logits + 1);
  const int width = static_cast<int>(places.size()) * engine.llama->row_width();
  const DeviceArray<float> hidden(*engine.backend, std::size_t(n_hidden + 1) * (width + 3));
  Outputs out = logits.rows(0, n_logits);
  out.hidden = {hidden.data(), n_hidden, width, width + 3};
  out.places = places;
  engine.llama->forward(batch, out);
  return {host_rows(*engine.backend, out.logits), host_rows(*engine.backend, out.hidden)};
}

// Expects row r to be what was observed of token `token` at all places.
inline void expect_row(const HandedOut& got, std::size_t r, std::span<const int> places,
                       const std::map<int, HostRows>& want, std::size_t token) {
  std::vector<float> row;
  for (const int place : places) {
    const std::vector<float>& part = want.at(place).at(token);
    row.insert(row.end(), part.begin(), part.end());
  }
  ASSERT_TRUE(equal_bits(got.hidden.at(r), row)) << "row " << r << " of token " << token;
}

// One to four of all places, in any order.
inline std::vector<int> random_places(int n_blocks, std::mt19937& random) {
  std::vector<int> places;
  for (int place = Outputs::kAfterNorm; place <= n_blocks; place++) places.push_back(place);
  std::ranges::shuffle(places, random);
  places.resize(1 + random() % std::min<std::size_t>(4, places.size()));
  return places;
}

// Feeds the tokens in random chunks, of which some are computed again, and expects each row that a
// pass hands out to be the observed one, and its logits not to change.
inline void expect_rows_of_chunks(Engine& engine, Engine& reference,
                                  std::span<const TokenId> tokens, std::mt19937& random) {
  const std::map<int, HostRows> want = observed_rows(reference, tokens);
  const HostRows want_logits = reference.prefill(tokens);
  const SequenceId sequence = engine.llama->create();
  for (std::size_t at = 0; at < tokens.size();) {
    const std::size_t again = random() % std::min<std::size_t>(at + 1, 5);
    const std::size_t first = at - again;
    const std::size_t fresh = again > 0 && random() % 3 == 0 ? 0 : 1 + random() % 20;
    const std::size_t end = std::min(tokens.size(), at + fresh), n = end - first;
    const auto places = random_places(engine.llama->n_blocks(), random);
    const std::size_t n_logits = random() % (n + 1), n_hidden = random() % (n + 1);
    const Segment segment{sequence,
                          tokens.subspan(first, n),
                          int(n_logits),
                          {},
                          {.rows = int(n_hidden), .again = int(again)}};
    const HandedOut got = hand_out(engine, std::span(&segment, 1), places);
    ASSERT_EQ(engine.llama->length(sequence), int(end));
    for (std::size_t i = 0; i < n_logits; i++) {
      ASSERT_TRUE(equal_bits(got.logits[i], want_logits[end - n_logits + i]));
    }
    for (std::size_t i = 0; i < n_hidden; i++) {
      expect_row(got, i, places, want, end - n_hidden + i);
      if (::testing::Test::HasFatalFailure()) return;
    }
    at = end;
  }
  engine.llama->release(sequence);
}

// Expects the rows of a tree's nodes to be those of their paths, observed alone.
inline void expect_rows_of_nodes(Engine& engine, Engine& reference,
                                 std::span<const TokenId> context, int n_nodes,
                                 std::mt19937& random) {
  const RandomTree tree(n_nodes, engine.llama->vocab_size(), random);
  const auto places = random_places(engine.llama->n_blocks(), random);
  const SequenceId sequence = engine.llama->create();
  if (!context.empty()) engine.forward(sequence, context, 0);
  const int rows = 1 + int(random() % unsigned(n_nodes));
  const Segment segment{sequence, tree.tokens, 1, tree.parents, {.rows = rows}};
  const HandedOut got = hand_out(engine, std::span(&segment, 1), places);
  for (int row = 0; row < rows; row++) {
    std::vector<TokenId> text(context.begin(), context.end());
    const auto path = tree.tokens_of(tree.path(n_nodes - rows + row));
    text.insert(text.end(), path.begin(), path.end());
    expect_row(got, std::size_t(row), places, observed_rows(reference, text), text.size() - 1);
    if (::testing::Test::HasFatalFailure()) return;
  }
  engine.llama->release(sequence);
}

}  // namespace specdec
