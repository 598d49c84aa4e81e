// Rows of the residual stream, as a pass hands them out: bit for bit what an observer of the
// operations sees, whatever else the pass computes, and whether it computes a token again.
#include "tests/hidden_rows_fixture.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

std::vector<std::int32_t> to_vector(std::span<const std::int32_t> pages) {
  return {pages.begin(), pages.end()};
}

class LlamaHiddenTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Engine> engine(int page_size, int max_pass_rows = 256) const {
    return std::make_unique<Engine>(GetParam(), make_cpu_backend(2), page_size,
                                    LlamaOptions{.max_pass_rows = max_pass_rows});
  }
  std::vector<TokenId> tokens(int length) const {
    return random_tokens(length, reference_->llama->vocab_size(), unsigned(length));
  }

  std::unique_ptr<Engine> reference_ =
      std::make_unique<Engine>(GetParam(), make_plain_backend(), kNoPages);
  std::mt19937 random_{5};
};

TEST_P(LlamaHiddenTest, AnyChunksOfThePrompt) {
  for (const int page_size : {kNoPages, 1, 3, 16}) {
    for (const int max_pass_rows : {1, 7, 256}) {
      SCOPED_TRACE(fmt::format("pages of {}, passes of {}", page_size, max_pass_rows));
      expect_rows_of_chunks(*engine(page_size, max_pass_rows), *reference_, tokens(90), random_);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(LlamaHiddenTest, NodesOfATree) {
  for (const int page_size : {kNoPages, 3}) {
    for (const int max_pass_rows : {5, 256}) {
      const auto e = engine(page_size, max_pass_rows);
      for (const int length : {0, 9, 60}) {
        expect_rows_of_nodes(*e, *reference_, tokens(length), 12, random_);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Chains, trees and tokens that are computed again share a pass, in any order; some want rows.
TEST_P(LlamaHiddenTest, AnyBatchMates) {
  const auto text = tokens(40), other = tokens(30);
  const auto want = observed_rows(*reference_, text),
             want_other = observed_rows(*reference_, other);
  for (const int max_pass_rows : {4, 256}) {
    const auto e = engine(3, max_pass_rows);
    for (int trial = 0; trial < 12; trial++) {
      const SequenceId a = e->llama->create(), b = e->llama->create(), c = e->llama->create();
      e->forward(a, std::span(text).first(20), 0);
      e->forward(b, std::span(other).first(30), 0);
      const auto places = random_places(e->llama->n_blocks(), random_);
      std::vector<Segment> batch = {
          {a, std::span(text).subspan(18, 10), 2, {}, {.rows = 9, .again = 2}},
          {b, std::span(other).subspan(26, 4), 0, {}, {.rows = 3, .again = 4}},
          {c, std::span(other).first(7), 1}};
      std::rotate(batch.begin(), batch.begin() + trial % 3, batch.end());
      const HandedOut got = hand_out(*e, batch, places);
      std::size_t row = 0;
      for (const Segment& segment : batch) {
        for (int i = segment.hidden.rows; i > 0; i--) {
          const std::size_t end = segment.sequence == a ? 28 : 30;
          expect_row(got, row++, places, segment.sequence == a ? want : want_other,
                     end - std::size_t(i));
          if (HasFatalFailure()) return;
        }
      }
      EXPECT_EQ(row, 12u);
      for (const SequenceId sequence : {a, b, c}) e->llama->release(sequence);
    }
  }
}

// It takes no room, and writes what is there already: pages that others share stay as they are.
TEST_P(LlamaHiddenTest, AgainChangesNoCache) {
  const auto text = tokens(31);
  for (const int page_size : {kNoPages, 1, 4}) {
    const auto e = engine(page_size);
    const SequenceId first = e->llama->create();
    e->forward(first, text, 0);
    const SequenceId second = page_size == kNoPages ? first : e->llama->fork(first);
    const auto before = cached_values(*e->cache, first);
    const std::vector<std::int32_t> pages = to_vector(e->cache->pages(second));
    const std::vector<int> places = {Outputs::kAfterNorm};
    const Segment segment{second, text, 0, {}, {.rows = 31, .again = 31}};
    const HandedOut got = hand_out(*e, std::span(&segment, 1), places);
    EXPECT_EQ(to_vector(e->cache->pages(second)), pages);
    EXPECT_EQ(e->llama->length(second), 31);
    EXPECT_TRUE(equal_bits(cached_values(*e->cache, first), before));
    const auto want = observed_rows(*reference_, text);
    for (std::size_t i = 0; i < 31; i++) expect_row(got, i, places, want, i);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, LlamaHiddenTest,
                         ::testing::Values("untied", "one_kv_head", "wide_heads", "draft"),
                         [](const auto& test) { return test.param; });

class HiddenInputTest : public ::testing::Test {
 protected:
  HiddenInputTest() { engine_.forward(sequence_, tokens_, 0); }
  void ask(int rows, int again, std::vector<int> places, std::vector<int> parents = {}) {
    const Segment segment{sequence_, tokens_, 0, parents, {.rows = rows, .again = again}};
    hand_out(engine_, std::span(&segment, 1), places);
  }

  Engine engine_{"untied", make_cpu_backend(1), 4};
  SequenceId sequence_ = engine_.llama->create();
  std::vector<TokenId> tokens_ = {1, 2, 3};
};

TEST_F(HiddenInputTest, WhatCannotBeHandedOut) {
  EXPECT_DEATH(ask(4, 0, {0}), "rows of 0 to 3 tokens, not 4");
  EXPECT_DEATH(ask(1, 4, {0}), "4 of 3 tokens to be computed again");
  EXPECT_DEATH(ask(1, 1, {0}, {-1, 0, 1}), "1 of 3 tokens to be computed again");
  const int n_blocks = engine_.llama->n_blocks();
  EXPECT_DEATH(ask(1, 0, {n_blocks + 1}), "at most 4 places of");
  EXPECT_DEATH(ask(1, 0, {-2}), "at most 4 places of");
  EXPECT_DEATH(ask(1, 0, {0, 0, 0, 0, 0}), "at most 4 places of");
  Outputs none;
  const Segment segment{sequence_, tokens_, 0, {}, {.rows = 1}};
  EXPECT_DEATH(engine_.llama->forward(segment, none), "1 rows of the residual stream, not 0");
}

}  // namespace
}  // namespace specdec
