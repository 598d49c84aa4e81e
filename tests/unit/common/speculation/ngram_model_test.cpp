// The n-gram model: probabilities by hand and by plain counting, the books of its sequences, and a
// model drafter on top of it.
#include "common/speculation/ngram_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/mapped_file.h"
#include "common/embedded_models.h"
#include "common/tokenizer/tokenizer.h"
#include "stages/05_rejection_sampling/sampling_drafter.h"
#include "tests/engine_fixture.h"
#include "tests/special_numbers.h"
#include "tests/test_support.h"
#include "tests/unit/allocation_counter.h"
#include "tests/unit/common/memory_backend.h"

namespace specdec {
namespace {

using ::testing::ElementsAre;
using Tokens = std::vector<TokenId>;

// The row after each of the tokens, which make one segment.
HostRows rows_after(NgramModel& model, const Tokens& tokens) {
  const int n = static_cast<int>(tokens.size());
  const LogitsBuffer logits(model, n);
  const SequenceId sequence = model.create();
  model.forward(Segment{sequence, tokens, n}, logits.rows(0, n));
  model.release(sequence);
  return host_rows(model.backend(), logits.rows(0, n));
}

double total(const std::vector<float>& row) {
  double sum = 0;
  for (const float log_prob : row) sum += std::exp(static_cast<double>(log_prob));
  return sum;
}

// ---- probabilities ----

TEST(NgramModelTest, ByHand) {
  // Six tokens: three 0, two 1, one 2; mu = 8, so each of the four ids gets two more.
  const Tokens text = {0, 1, 0, 1, 0, 2};
  MemoryBackend backend;
  NgramModel unigram(backend, 6, 4, 1, text, 1);
  NgramModel bigram(backend, 6, 4, 2, text, 1);
  ASSERT_EQ(NgramModel::kPriorTokens, 8) << "what the numbers below are made with";
  const auto log_of = [](double a, double b) { return static_cast<float>(std::log(a / b)); };

  const auto by_count = ElementsAre(log_of(5, 14), log_of(4, 14), log_of(3, 14), log_of(2, 14),
                                    -kInfinity, -kInfinity);
  EXPECT_THAT(rows_after(unigram, {0, 3, 5}), ElementsAre(by_count, by_count, by_count));

  // After 0: two 1 and one 2. Numerators times 14: (n + 8 P1) * 14, of (3 + 8) * 14.
  const auto rows = rows_after(bigram, {0, 2, 5});
  const std::vector<double> after_0 = {40, 2 * 14 + 32, 14 + 24, 16};
  for (std::size_t x = 0; x < 4; x++) EXPECT_FLOAT_EQ(rows[0][x], log_of(after_0[x], 154)) << x;
  EXPECT_EQ(rows[0][4], -kInfinity);
  EXPECT_EQ(rows[0][5], -kInfinity);
  // 2 ends the text and 5 is no token: nothing follows them, so the unigram is all that is known.
  for (const std::size_t r : {1u, 2u}) {
    for (std::size_t x = 0; x < 6; x++) EXPECT_EQ(rows[r][x], rows_after(unigram, {0})[0][x]) << x;
  }
}

TEST(NgramModelTest, EqualsPlainCounting) {
  for (unsigned seed = 0; seed < 20; seed++) {
    const int limit = 2 + static_cast<int>(seed), vocab_size = limit + static_cast<int>(seed % 3);
    const Tokens text = random_tokens(1 + 10 * static_cast<int>(seed), limit, seed);
    MemoryBackend backend;
    NgramModel unigram(backend, vocab_size, limit, 1, text, 1);
    NgramModel bigram(backend, vocab_size, limit, 2, text, 1);
    const auto n = static_cast<double>(text.size());
    for (TokenId h = 0; h < limit; h++) {
      const auto row1 = rows_after(unigram, {h})[0], row2 = rows_after(bigram, {h})[0];
      double n_h = 0;
      for (std::size_t i = 1; i < text.size(); i++) n_h += text[i - 1] == h;
      for (TokenId x = 0; x < vocab_size; x++) {
        const auto column = static_cast<std::size_t>(x);
        if (x >= limit) {
          EXPECT_EQ(row1[column], -kInfinity);
          EXPECT_EQ(row2[column], -kInfinity);
          continue;
        }
        double n_x = 0, n_hx = 0;
        for (std::size_t i = 0; i < text.size(); i++) {
          n_x += text[i] == x;
          n_hx += i > 0 && text[i - 1] == h && text[i] == x;
        }
        const double prob1 = (n_x + 8.0 / limit) / (n + 8);
        EXPECT_FLOAT_EQ(row1[column], static_cast<float>(std::log(prob1)));
        EXPECT_FLOAT_EQ(row2[column], static_cast<float>(std::log((n_hx + 8 * prob1) / (n_h + 8))));
      }
      EXPECT_NEAR(total(row1), 1, 1e-6);
      EXPECT_NEAR(total(row2), 1, 1e-6);
    }
  }
}

TEST(NgramModelTest, WithoutTextAllTokensAreEquallyLikely) {
  MemoryBackend backend;
  for (const int order : {1, 2}) {
    NgramModel model(backend, 5, 4, order, {}, 1);
    const auto quarter = static_cast<float>(std::log(0.25));
    EXPECT_THAT(rows_after(model, {1})[0],
                ElementsAre(quarter, quarter, quarter, quarter, -kInfinity));
  }
}

TEST(NgramModelTest, TheEmbeddedText) {
  const Tokenizer tokenizer = Tokenizer::load(embedded_target() / "tokenizer.json");
  const Tokens text = tokenizer.encode(read_text_file(embedded_draft_text()), false);
  EXPECT_GT(text.size(), 50'000u);
  EXPECT_EQ(text[0], tokenizer.tokens_before_text()[0]) << "special tokens are tokens";
  const int V = tokenizer.vocab_size();
  MemoryBackend backend;
  NgramModel unigram(backend, V, V, 1, text, 1), bigram(backend, V, V, 2, text, 1);
  double bits1 = 0, bits2 = 0;
  for (std::size_t i = 1; i < 500; i++) {
    const auto row1 = rows_after(unigram, {text[i - 1]})[0];
    const auto row2 = rows_after(bigram, {text[i - 1]})[0];
    EXPECT_NEAR(total(row1), 1, 1e-6);
    EXPECT_NEAR(total(row2), 1, 1e-6);
    EXPECT_GT(*std::ranges::min_element(row2), -kInfinity);
    bits1 -= static_cast<double>(row1[static_cast<std::size_t>(text[i])]) / std::log(2.0);
    bits2 -= static_cast<double>(row2[static_cast<std::size_t>(text[i])]) / std::log(2.0);
  }
  EXPECT_LT(bits2, 0.7 * bits1) << "the token before says much";
}

// ---- as a language model ----

TEST(NgramModelTest, RowsDoNotDependOnTheBatch) {
  const Tokens text = random_tokens(500, 30, 1);
  MemoryBackend backend;
  NgramModel model(backend, 32, 30, 2, text, 3);
  const SequenceId a = model.create(), b = model.create(), c = model.create();
  const Tokens first = {4, 5, 6}, second = {7}, third = {8, 9};
  const LogitsBuffer logits(model, 4);
  const Segment batch[] = {{c, first, 2}, {a, second, 0}, {b, third, 2}};
  model.forward(batch, logits.rows(0, 4));
  const auto together = host_rows(backend, logits.rows(0, 4));
  for (std::size_t r = 0; r < 4; r++) {
    const auto alone = [&] {
      NgramModel other(backend, 32, 30, 2, text, 1);
      return rows_after(other, {Tokens{5, 6, 8, 9}[r]})[0];
    }();
    EXPECT_TRUE(equal_bits(together[r], alone)) << r;
  }
  EXPECT_EQ(model.length(a), 1);
  EXPECT_EQ(model.length(b), 2);
  EXPECT_EQ(model.length(c), 3);
}

TEST(NgramModelTest, Books) {
  MemoryBackend backend;
  NgramModel model(backend, 8, 8, 2, {}, 2);
  const Tokens tokens = {1, 2, 3};
  const SequenceId a = model.create();
  model.forward(Segment{a, tokens, 0}, {});
  const SequenceId b = model.fork(a);
  EXPECT_NE(a, b);
  EXPECT_EQ(model.length(b), 3);
  EXPECT_ERROR(model.create(), "room for 2 sequences");
  EXPECT_THROW(model.fork(a), CacheFull);
  model.truncate(b, 1);
  EXPECT_EQ(model.length(b), 1);
  EXPECT_EQ(model.length(a), 3);
  model.release(a);
  EXPECT_EQ(model.create(), a) << "used again";
  EXPECT_EQ(model.length(a), 0);

  constexpr int kMost = std::numeric_limits<int>::max();
  EXPECT_EQ(model.max_seq_len(), kMost);
  const Extension just[] = {{a, kMost}, {b, kMost - 1}}, too_long[] = {{a, 1}, {b, kMost}};
  EXPECT_TRUE(model.can_extend(just));
  EXPECT_FALSE(model.can_extend(too_long));
}

TEST(NgramModelTest, AFailureChangesNothing) {
  MemoryBackend backend;
  NgramModel model(backend, 8, 6, 2, {}, 2);
  const SequenceId a = model.create(), b = model.create();
  const LogitsBuffer logits(model, 2);
  const Tokens good = {7}, negative = {1, -1}, large = {8};
  const auto forward = [&](const Tokens& second) {
    const Segment batch[] = {{a, good, 1}, {b, second, 1}};
    model.forward(batch, logits.rows(0, 2));
  };
  EXPECT_ERROR(forward(negative), "token id -1 is outside the vocabulary of 8");
  EXPECT_ERROR(forward(large), "token id 8 is outside the vocabulary of 8");
  EXPECT_EQ(model.length(a), 0);
  EXPECT_EQ(model.length(b), 0);
  forward(good);
  EXPECT_EQ(model.length(a), 1);
}

TEST(NgramModelDeathTest, BrokenPreconditions) {
  MemoryBackend backend;
  const Tokens text = {1, 4};
  EXPECT_DEATH(NgramModel(backend, 8, 8, 3, {}, 1), "order 1 or 2");
  EXPECT_DEATH(NgramModel(backend, 8, 9, 1, {}, 1), "9 tokens to be in a vocabulary of 8");
  EXPECT_DEATH(NgramModel(backend, 8, 4, 1, text, 1), "id 4 of the text to be below 4");
  NgramModel model(backend, 8, 8, 1, {}, 1);
  EXPECT_DEATH(model.truncate(0, 0), "sequence 0 to exist");
  const SequenceId a = model.create();
  EXPECT_DEATH(model.truncate(a, 1), "to keep 0 to 0 tokens, not 1");
  const Segment twice[] = {{a, text, 0}, {a, text, 0}};
  EXPECT_DEATH(model.forward(twice, {}), "once in a call");
  EXPECT_DEATH(model.forward(Segment{a, text, 1}, {}), "logits of 1 rows, not 0");
}

TEST(NgramModelTest, ForwardAllocatesNothing) {
  const Tokens text = random_tokens(2000, 100, 2);
  MemoryBackend backend;
  NgramModel model(backend, 100, 100, 2, text, 2);
  const SequenceId a = model.create(), b = model.create();
  const LogitsBuffer logits(model, 6);
  const std::size_t before = allocations();
  for (std::size_t at = 0; at + 5 < text.size(); at++) {
    const Segment batch[] = {{a, std::span(text).subspan(at, 5), 5},
                             {b, std::span(text).subspan(at, 1), 1}};
    model.forward(batch, logits.rows(0, 6));
    model.truncate(a, static_cast<int>(at));
  }
  EXPECT_EQ(allocations() - before, 0u);
}

// ---- as a draft ----

TEST(NgramModelTest, AModelDrafterFollowsTheLikeliestSuccessors) {
  const Tokens text = {1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3, 4, 1, 2, 7, 7};
  const auto backend = make_cpu_backend(1);
  NgramModel model(*backend, 8, 8, 2, text, 1);
  SamplingDrafter drafter(model, 20);
  const SequenceId sequence = drafter.create();
  Drafts drafts(6, 0);
  const auto propose = [&](const Tokens& context, int spec_length) {
    const DraftRequest request{sequence, context, spec_length, {}, &drafts};
    drafter.draft(std::span(&request, 1));
    return Tokens(drafts.tokens().begin(), drafts.tokens().end());
  };
  EXPECT_THAT(propose({6, 1}, 5), ElementsAre(2, 3, 4, 1, 2));
  EXPECT_EQ(drafter.length(sequence), 6);
  drafter.truncate(sequence, 3);  // 2 accepted, then 7 instead of 3
  EXPECT_THAT(propose({6, 1, 2, 7}, 3), ElementsAre(7, 7, 7));
}

}  // namespace
}  // namespace specdec
