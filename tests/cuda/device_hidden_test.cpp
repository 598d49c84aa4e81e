// Rows of the residual stream on an emulated device (tests/unit/common/llama_hidden_test.cpp is the
// same for the CPU), and that they stay there and cost nothing unless they are wanted.
#include "kernels/cuda_backend.h"
#include "kernels/emulation/cuda_on_cpu.h"
#include "tests/hidden_rows_fixture.h"

namespace specdec {
namespace {

std::unique_ptr<Engine> engine(const std::string& model, int page_size, int max_pass_rows = 256) {
  return std::make_unique<Engine>(model, make_emulated_backend(), page_size,
                                  LlamaOptions{.max_pass_rows = max_pass_rows});
}

TEST(DeviceHidden, RowsOfChunksAndNodes) {
  std::mt19937 random(3);
  for (const std::string model : {"untied", "wide_heads"}) {
    const auto reference = engine(model, kNoPages);
    const auto tokens = random_tokens(40, reference->llama->vocab_size(), 1);
    for (const auto& [page_size, max_pass_rows] : {std::pair{kNoPages, 256}, {3, 5}}) {
      const auto e = engine(model, page_size, max_pass_rows);
      expect_rows_of_chunks(*e, *reference, tokens, random);
      expect_rows_of_nodes(*e, *reference, tokens, 6, random);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// Passes of the same size take turns, so that graphs are repeated: with rows of one place, of
// another, and without.
TEST(DeviceHidden, AGraphKnowsItsPlaces) {
  const auto e = engine("untied", 3), reference = engine("untied", kNoPages);
  const auto tokens = random_tokens(12, e->llama->vocab_size(), 1);
  const auto want = observed_rows(*reference, tokens);
  const std::vector<std::vector<int>> asked = {{Outputs::kAfterNorm}, {1}, {}};
  const DeviceArray<float> hidden(*e->backend, std::size_t(e->llama->row_width()));
  const SequenceId sequence = e->llama->create();
  for (std::size_t i = 0; i < tokens.size(); i++) {
    const std::vector<int>& places = asked[i % 3];
    Outputs out;
    out.hidden = matrix(hidden, places.empty() ? 0 : 1, e->llama->row_width());
    out.places = places;
    const Segment segment{
        sequence, std::span(tokens).subspan(i, 1), 0, {}, {.rows = out.hidden.rows}};
    e->llama->forward(segment, out);
    if (places.empty()) continue;
    const HandedOut got{{}, host_rows(*e->backend, out.hidden)};
    expect_row(got, 0, places, want, i);
  }
}

// The launches, downloads and waits of a pass over 4 tokens of a new sequence.
emulation::Traffic traffic_of(Engine& e, std::vector<int> places, int rows) {
  const auto tokens = random_tokens(4, e.llama->vocab_size(), 1);
  const DeviceArray<float> hidden(
      *e.backend, std::size_t(rows + 1) * (places.size() + 1) * std::size_t(e.llama->row_width()));
  Outputs out;
  out.hidden = matrix(hidden, rows, static_cast<int>(places.size()) * e.llama->row_width());
  out.places = places;
  const SequenceId sequence = e.llama->create();
  e.llama->backend().wait();
  const emulation::Traffic before = emulation::traffic();
  e.llama->forward(Segment{sequence, tokens, 0, {}, {.rows = rows}}, out);
  e.llama->backend().wait();
  emulation::Traffic used = emulation::traffic() - before;
  e.llama->release(sequence);
  return used;
}

TEST(DeviceHidden, RowsStayThere) {
  const auto e = engine("untied", 3);
  const emulation::Traffic plain = traffic_of(*e, {}, 0);
  const emulation::Traffic with_rows = traffic_of(*e, {Outputs::kAfterNorm, 0, 1}, 2);
  EXPECT_EQ(with_rows.launches, plain.launches + 4) << "a norm, and what is gathered";
  EXPECT_EQ(with_rows.uploads, plain.uploads);
  EXPECT_EQ(with_rows.downloads, plain.downloads);
  EXPECT_EQ(with_rows.waits, plain.waits);
}

}  // namespace
}  // namespace specdec
