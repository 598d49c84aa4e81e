// The engine's contract: the logits of a token depend on the model and the tokens before it, bit
// for bit, and on nothing else.
#include <cmath>

#include "stages/programs/check/observing_backend.h"
#include "tests/engine_fixture.h"
#include "tests/kept_checkpoint.h"
#include "tests/kv_types.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

// Expects rows first, first + 1, ... of the reference.
::testing::AssertionResult rows_equal(const HostRows& got, const HostRows& want,
                                      std::size_t first = 0) {
  for (std::size_t r = 0; r < got.size(); r++) {
    if (!equal_bits(got[r], want.at(first + r))) {
      return ::testing::AssertionFailure() << "row " << first + r << " differs";
    }
  }
  return ::testing::AssertionSuccess();
}

struct BitsCase {
  std::string model;
  WeightFormat format = WeightFormat::kStored;
  KvType kv_type = KvType::kF32;
  bool in_groups = false;  // the checkpoint itself
};

class LlamaBitsTest : public ::testing::TestWithParam<BitsCase> {
 protected:
  static constexpr int kLength = 70;

  LlamaBitsTest()
      : model_(model()),
        reference_(model_, make_plain_backend(), kNoPages, {}, 4, 320, GetParam().format,
                   GetParam().kv_type),
        tokens_(random_tokens(kLength, reference_.llama->vocab_size(), 1)),
        want_(reference_.prefill(tokens_)) {
    for (const auto& row : want_) {  // or NaN, which equals NaN bit for bit, would pass everywhere
      EXPECT_TRUE(std::ranges::all_of(row, [](float logit) { return std::isfinite(logit); }));
    }
  }

  std::unique_ptr<Engine> engine(int page_size, int threads = 2, int max_pass_rows = 256) {
    return std::make_unique<Engine>(model_, make_cpu_backend(threads), page_size,
                                    LlamaOptions{.max_pass_rows = max_pass_rows}, 4, 320,
                                    GetParam().format, GetParam().kv_type);
  }
  std::span<const TokenId> tokens(int first, int count) const {
    return std::span(tokens_).subspan(std::size_t(first), std::size_t(count));
  }

  // A golden model's name, or the path of its copy in groups.
  std::string model() const {
    if (!GetParam().in_groups) return GetParam().model;
    write_kept_copy(golden_model(GetParam().model), directory_.path() / "kept");
    return directory_.path() / "kept";
  }

  TemporaryDirectory directory_;
  std::string model_;
  Engine reference_;
  std::vector<TokenId> tokens_;
  HostRows want_;  // by the plain backend, all tokens in one pass over a contiguous cache
};

TEST_P(LlamaBitsTest, TokenByTokenEqualsOnePass) {
  const auto e = engine(16);
  const SequenceId sequence = e->llama->create();
  for (int i = 0; i < kLength; i++) {
    EXPECT_TRUE(rows_equal(e->forward(sequence, tokens(i, 1), 1), want_, std::size_t(i)));
  }
}

TEST_P(LlamaBitsTest, AnyNumberOfRows) {
  const auto e = engine(kNoPages);
  for (int rows = 1; rows <= 64; rows++) {
    const SequenceId sequence = e->llama->create();
    e->forward(sequence, tokens(0, kLength - rows), 0);
    EXPECT_TRUE(rows_equal(e->forward(sequence, tokens(kLength - rows, rows), rows), want_,
                           std::size_t(kLength - rows)))
        << rows << " rows";
    e->llama->release(sequence);
  }
}

TEST_P(LlamaBitsTest, AnyThreadsPagesAndPasses) {
  for (const int threads : {1, 2, 3}) {
    for (const int page_size : {kNoPages, 1, 3, 16, 256}) {
      for (const int max_pass_rows : {1, 2, 7, 256}) {
        const auto e = engine(page_size, threads, max_pass_rows);
        EXPECT_TRUE(rows_equal(e->prefill(tokens_), want_))
            << threads << " threads, pages of " << page_size << ", passes of " << max_pass_rows;
      }
    }
  }
}

TEST_P(LlamaBitsTest, AnyChunksOfThePrompt) {
  const auto e = engine(3);
  std::mt19937 random(7);
  for (int trial = 0; trial < 20; trial++) {
    const SequenceId sequence = e->llama->create();
    for (int at = 0; at < kLength;) {
      const int count = std::min(kLength - at, 1 + static_cast<int>(random() % 20));
      const int rows = static_cast<int>(random() % unsigned(count + 1));
      EXPECT_TRUE(rows_equal(e->forward(sequence, tokens(at, count), rows), want_,
                             std::size_t(at + count - rows)));
      at += count;
    }
    e->llama->release(sequence);
  }
}

// Several sequences at different places in one pass, in any order, split over passes or not.
TEST_P(LlamaBitsTest, AnyBatchMates) {
  for (const int max_pass_rows : {3, 256}) {
    const auto e = engine(3, 2, max_pass_rows);
    const auto other_tokens = random_tokens(kLength, e->llama->vocab_size(), 2);
    const HostRows other_want = e->prefill(other_tokens);
    const SequenceId a = e->llama->create(), b = e->llama->create(), c = e->llama->create();
    e->forward(c, tokens(0, 9), 0);
    const LogitsBuffer logits(*e->llama, 3);
    for (int i = 0; i + 2 < kLength - 9; i += 2) {
      const std::span<const TokenId> others = std::span(other_tokens).subspan(std::size_t(i), 2);
      std::vector<Segment> batch = {{a, tokens(i, 2), 1}, {b, others, 1}, {c, tokens(9 + i, 2), 1}};
      std::rotate(batch.begin(), batch.begin() + i / 2 % 3, batch.end());
      e->llama->forward(batch, logits.rows(0, 3));
      for (int r = 0; r < 3; r++) {
        const SequenceId sequence = batch[std::size_t(r)].sequence;
        const HostRows row = host_rows(*e->backend, logits.rows(r, 1));
        EXPECT_TRUE(rows_equal(row, sequence == b ? other_want : want_,
                               std::size_t(i + 1 + (sequence == c ? 9 : 0))));
      }
    }
  }
}

TEST_P(LlamaBitsTest, ForksGoTheirOwnWays) {
  for (const int page_size : {kNoPages, 1, 3, 16}) {
    const auto e = engine(page_size);
    auto detour = random_tokens(kLength, e->llama->vocab_size(), 3);
    std::copy_n(tokens_.begin(), 20, detour.begin());
    const HostRows detour_want = e->prefill(detour);
    const SequenceId a = e->llama->create();
    e->forward(a, tokens(0, 20), 0);
    const SequenceId b = e->llama->fork(a);
    for (int i = 20; i < kLength; i++) {  // by turns, each into its own copy
      EXPECT_TRUE(rows_equal(e->forward(a, tokens(i, 1), 1), want_, std::size_t(i)));
      EXPECT_TRUE(rows_equal(e->forward(b, std::span(detour).subspan(std::size_t(i), 1), 1),
                             detour_want, std::size_t(i)));
    }
  }
}

// Rolled back, a sequence goes on as if the rest had never been: what speculation does all the
// time.
TEST_P(LlamaBitsTest, TruncateLeavesNoTrace) {
  for (const int page_size : {kNoPages, 1, 3, 16}) {
    const auto e = engine(page_size);
    const auto wrong = random_tokens(8, e->llama->vocab_size(), 4);
    const SequenceId sequence = e->llama->create();
    std::mt19937 random(5);
    for (int at = 0; at < kLength;) {
      const int good = std::min(kLength - at, 1 + static_cast<int>(random() % 6));
      EXPECT_TRUE(rows_equal(e->forward(sequence, tokens(at, good), good), want_, std::size_t(at)));
      at += good;
      e->forward(sequence, std::span(wrong).first(1 + random() % 8), 1);
      e->llama->truncate(sequence, at);
      EXPECT_EQ(e->llama->length(sequence), at);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, LlamaBitsTest,
    ::testing::Values(BitsCase{"untied"}, BitsCase{"plain_rope"}, BitsCase{"one_kv_head"},
                      BitsCase{"all_kv_heads"}, BitsCase{"wide_heads"}, BitsCase{"sharded"},
                      BitsCase{"draft"}, BitsCase{"untied", WeightFormat::kInt8},
                      BitsCase{"draft", WeightFormat::kInt8}, BitsCase{"untied", WeightFormat::kQ4},
                      BitsCase{"draft", WeightFormat::kQ4},
                      BitsCase{"untied", WeightFormat::kStored, KvType::kBF16},
                      BitsCase{"wide_heads", WeightFormat::kStored, KvType::kBF16},
                      BitsCase{"draft", WeightFormat::kInt8, KvType::kBF16},
                      BitsCase{.model = "untied", .in_groups = true},
                      BitsCase{.model = "draft", .in_groups = true}),
    [](const auto& test) {
      const BitsCase& the = test.param;
      return the.model +
             (the.format == WeightFormat::kStored ? ""
              : the.format == WeightFormat::kInt8 ? "_int8"
                                                  : "_q4") +
             (the.kv_type == KvType::kF32 ? "" : "_bf16_cache") + (the.in_groups ? "_kept" : "");
    });

// Rounds what a layer of a cache in host memory holds.
void round_all(const KvMemory& memory, int layer) {
  const KvRows<float> rows = memory.layer(layer).rows<float>();
  for (float* numbers : {rows.keys, rows.values}) {
    for (int i = 0; i < memory.slots() * memory.shape().width(); i++) {
      numbers[i] = held(numbers[i], KvType::kBF16);
    }
  }
}

// A cache of bf16 is one of float32 whose numbers are rounded when they are stored, and in nothing
// else.
TEST(LlamaKvTypeTest, ABF16CacheHoldsRoundedNumbers) {
  for (const std::string model : {"untied", "draft"}) {
    Engine engine(model, make_cpu_backend(2), 3, {}, 4, 320, WeightFormat::kStored, KvType::kBF16);
    Engine rounded(model, make_cpu_backend(2), 16), exact(model, make_cpu_backend(2), 16);
    ObservingBackend rounding(rounded.model, [&](TensorKind kind, int layer, ConstDeviceRows) {
      if (kind == TensorKind::kKRope) round_all(rounded.cache->memory(), layer);
    });
    rounded.llama->compute_through(rounding);
    const auto tokens = random_tokens(90, engine.llama->vocab_size(), 6);
    const HostRows got = engine.prefill(tokens);
    EXPECT_TRUE(rows_equal(got, rounded.prefill(tokens)));
    EXPECT_FALSE(rows_equal(got, exact.prefill(tokens)));
    EXPECT_EQ(2 * engine.cache->memory().shape().bytes_per_token(),
              exact.cache->memory().shape().bytes_per_token());
    rounded.llama->compute_through(*rounded.backend);
  }
}

}  // namespace
}  // namespace specdec
