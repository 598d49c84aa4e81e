#include <algorithm>
#include <functional>

#include "common/base/error.h"
#include "kernels/cuda/sampling/sampling_philox.h"
#include "tests/cuda/sampling_test.h"

#ifdef SPECDEC_EMULATED
#include "kernels/emulation/cuda_on_cpu.h"
#endif

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

class SamplingKernel : public KernelTest {};

// Rows of logits, and the options of the choice from each.
struct Rows {
  int V;
  TestRows logits;
  std::vector<std::vector<std::int32_t>> histories;
  std::vector<Choice> choices;

  Rows(TestNumbers& numbers, int rows, int vocab_size, int width)
      : V(vocab_size), logits(rows, width), histories(index_of(rows)) {
    for (int r = 0; r < rows; ++r) {
      random_logits(numbers, logits.row(r), width);
      auto& history = histories[index_of(r)];
      history = random_history(numbers, V, numbers.below(2 * V + 2));
      choices.push_back(
          {.sampling = row_sampling(random_options(numbers, V), history),
           .by = one_of<DrawBy>(numbers, {DrawBy::kInversion, DrawBy::kRace, DrawBy::kLargest}),
           .seed = numbers.bits() * std::uint64_t{0x100000001},
           .position = numbers.below(1000),
           .purpose = static_cast<std::uint32_t>(numbers.below(4))});
    }
  }
  int rows() const { return logits.rows(); }
  const Choice& choice(int r) const { return choices[index_of(r)]; }
};

struct Chosen {
  std::vector<std::int32_t> tokens;
  std::vector<std::vector<double>> probs;
};

// The device's choices for rows first .. first + count - 1.
Chosen choose(const Rows& rows, int first, int count) {
  int history = 0;
  for (const auto& h : rows.histories) history += static_cast<int>(h.size());
  const auto sampler =
      device().make_sampler({.vocab_size = rows.V, .rows = rows.rows(), .history = history});
  const DeviceMatrix logits(rows.logits.view(), 3);
  std::vector<Choice> choices(rows.choices.begin() + first, rows.choices.begin() + first + count);
  std::vector<OnDevice<double>> probs;
  for (Choice& choice : choices) {
    probs.emplace_back(std::vector<double>(index_of(rows.V), double{kNan}));
    choice.probs = probs.back().data();
  }
  Chosen chosen;
  chosen.tokens.resize(index_of(count), -2);
  sampler->choose(logits.view().slice(first, count), choices, chosen.tokens);
  for (const auto& p : probs) chosen.probs.push_back(p.get());
  return chosen;
}

TokenId host_token(const Choice& choice, const std::vector<double>& probs) {
  Dice dice(choice.seed);
  switch (choice.by) {
    case DrawBy::kInversion:
      return dice.token(probs, choice.position, static_cast<Purpose>(choice.purpose));
    case DrawBy::kRace:
      return dice.race(probs, choice.position);
    case DrawBy::kLargest:
      return static_cast<TokenId>(std::ranges::max_element(probs) - probs.begin());
  }
  return -1;
}

// The number of rows with another choice than the host's. All distributions must have the same
// bits.
int count_differences(const Rows& rows, const Chosen& chosen) {
  int differences = 0;
  for (int r = 0; r < rows.rows(); ++r) {
    const Choice& choice = rows.choice(r);
    const auto want = host_probs(rows.logits.view(), r, choice.sampling, rows.V);
    const RowSampling& s = choice.sampling;
    EXPECT_TRUE(same_bits(chosen.probs[index_of(r)], want))
        << fmt::format("row {}: temperature {} top-k {} top-p {} penalty {}", r, s.temperature,
                       s.top_k, s.top_p, s.repetition_penalty);
    differences += chosen.tokens[index_of(r)] != host_token(choice, want);
  }
  return differences;
}

TEST_F(SamplingKernel, UniformsAreTheHostsBits) {
  TestNumbers numbers(1);
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t seed = numbers.bits() | std::uint64_t{numbers.bits()} << 32;
    const int position = static_cast<int>(numbers.bits() >> 1 >> numbers.below(31));
    const int index = static_cast<int>(numbers.bits() >> 1 >> numbers.below(31));
    for (const Purpose purpose : {Purpose::kDraft, Purpose::kAccept, Purpose::kResample,
                                  Purpose::kTarget, Purpose::kRace}) {
      ASSERT_EQ(cuda::uniform(seed, position, static_cast<std::uint32_t>(purpose), index),
                specdec::uniform(seed, position, purpose, index));
    }
  }
  EXPECT_EQ(kDrawAccept, static_cast<std::uint32_t>(Purpose::kAccept));
  EXPECT_EQ(kDrawResample, static_cast<std::uint32_t>(Purpose::kResample));
  EXPECT_EQ(kDrawTarget, static_cast<std::uint32_t>(Purpose::kTarget));
  EXPECT_EQ(kDrawRace, static_cast<std::uint32_t>(Purpose::kRace));
}

TEST_F(SamplingKernel, ChoosesAsTheHostDoes) {
  TestNumbers numbers(2);
  for (const int V : {1, 2, 7, 33, 100}) {
    for (int repeat = 0; repeat < 8; ++repeat) {
      const Rows rows(numbers, 100, V, V);
      EXPECT_EQ(count_differences(rows, choose(rows, 0, 100)), 0) << V;
    }
  }
}

TEST_F(SamplingKernel, ChoosesAsTheHostDoesFromLargeVocabularies) {
  TestNumbers numbers(3);
  for (const int V : {700, 4096, 20000}) {
    const int count = V == 20000 ? 6 : 24;
    const Rows rows(numbers, count, V, V);
    EXPECT_EQ(count_differences(rows, choose(rows, 0, count)), 0) << V;
  }
}

// Ties in every bin: every `step`-th top-k, and top-p at, just above and just below the sums of the
// likeliest tokens.
void expect_the_hosts_tokens(std::uint32_t seed, int V, int step, double temperature) {
  TestNumbers numbers(seed);
  Rows rows(numbers, 4 * (V / step), V, V);
  for (int r = 0; r < rows.rows(); ++r) {
    for (int i = 0; i < V; ++i) rows.logits.row(r)[i] = static_cast<float>(numbers.below(5));
    RowSampling& s = rows.choices[index_of(r)].sampling;
    s = row_sampling({.temperature = temperature}, s.history);
    const int n = r / 4 * step + 1;
    if (r % 4 == 0) s.top_k = n;
    if (r % 4 == 0) continue;
    std::vector<double> sorted = host_probs(rows.logits.view(), r, s, V);
    std::ranges::sort(sorted, std::greater());
    double held = 0;
    for (int i = 0; i < n; ++i) held += sorted[index_of(i)];
    s.top_p = std::min(1.0, held * (1 + (r % 4 - 2) * 1e-12));
  }
  EXPECT_EQ(count_differences(rows, choose(rows, 0, rows.rows())), 0);
}

TEST_F(SamplingKernel, KeepsTheHostsTokens) { expect_the_hosts_tokens(4, 40, 1, 1); }
TEST_F(SamplingKernel, KeepsTheHostsTokensOfManyBlocks) {
  expect_the_hosts_tokens(12, 2500, 311, 1);
  expect_the_hosts_tokens(13, 2500, 311, 0.01);  // all but the likeliest are in the last bin
  expect_the_hosts_tokens(14, 2500, 311, 1e20);  // all are in the first
}

// Top-k and top-p of rows of all kinds in one call, with vocabularies of one block and of several.
TEST_F(SamplingKernel, FiltersAsTheHostDoes) {
  TestNumbers numbers(15);
  for (const int V : {255, 256, 257, 600, 1023, 1025, 5000}) {
    Rows rows(numbers, 16, V, V);
    for (Choice& choice : rows.choices) {
      RowSampling& s = choice.sampling;
      if (s.temperature == 0) s.temperature = 0.8;
      s.top_k = one_of<int>(numbers, {0, 1, numbers.between(1, V), V});
      s.top_p = one_of<double>(numbers, {1, fraction(numbers), 0.999, 1 - 1e-15, 1e-300});
    }
    EXPECT_EQ(count_differences(rows, choose(rows, 0, 16)), 0) << V;
  }
}

#ifdef SPECDEC_EMULATED
TEST_F(SamplingKernel, FiltersTakeTheseLaunches) {
  TestNumbers numbers(16);
  Rows rows(numbers, 3, 3000, 3000);
  const auto launches = [&](const SamplingOptions& one, const SamplingOptions& others) {
    for (int r = 0; r < 3; ++r) {
      rows.choices[index_of(r)].sampling = row_sampling(r == 1 ? one : others, {});
    }
    const auto before = emulation::traffic().launches;
    choose(rows, 0, 3);
    return emulation::traffic().launches - before;
  };
  const SamplingOptions plain{.temperature = 1}, both{1, 40, 0.9, 1};
  EXPECT_EQ(launches(plain, plain), 3u);
  EXPECT_EQ(launches({1, 40, 1, 1}, plain), 5u);
  EXPECT_EQ(launches({1, 0, 0.9, 1}, plain), 6u);
  EXPECT_EQ(launches(both, plain), 8u);
  EXPECT_EQ(launches(plain, both), 8u);
  EXPECT_EQ(launches({0, 40, 0.9, 1}, plain), 3u) << "the likeliest needs no filter";
}
#endif

TEST_F(SamplingKernel, AnotherSeedPositionOrPurposeIsAnotherDraw) {
  TestNumbers numbers(5);
  Rows rows(numbers, 60, 100, 100);
  for (Choice& choice : rows.choices) {
    choice.sampling.temperature = 100;
    choice.sampling.top_k = 0;
    choice.sampling.top_p = 1;
    choice.by = DrawBy::kInversion;
  }
  Rows other = rows;
  for (Choice& choice : other.choices) choice.seed ^= std::uint64_t{1} << 40;
  EXPECT_GT(count_differences(rows, choose(other, 0, 60)), 30);
  other = rows;
  for (Choice& choice : other.choices) choice.position++;
  EXPECT_GT(count_differences(rows, choose(other, 0, 60)), 30);
  other = rows;
  for (Choice& choice : other.choices) choice.purpose++;
  EXPECT_GT(count_differences(rows, choose(other, 0, 60)), 30);
}

TEST_F(SamplingKernel, TakesLogitsOfAnotherWidth) {
  TestNumbers numbers(6);
  for (const int width : {70, 99, 101, 130}) {
    Rows rows(numbers, 30, 100, width);
    for (int r = 0; r < rows.rows(); ++r) {  // the columns after them are not read
      for (int i = 100; i < width; ++i) rows.logits.row(r)[i] = kNan;
    }
    EXPECT_EQ(count_differences(rows, choose(rows, 0, 30)), 0) << width;
  }
}

TEST_F(SamplingKernel, ARowDependsOnItselfAlone) {
  TestNumbers numbers(7);
  for (const int V : {50, 1000}) {
    Rows rows(numbers, 12, V, V);
    for (int i = 0; i < V; ++i) rows.logits.row(5)[i] = kNan;
    const Chosen together = choose(rows, 0, 12);
    for (int r = 0; r < rows.rows(); ++r) {
      const Chosen alone = choose(rows, r, 1);
      EXPECT_EQ(alone.tokens[0], together.tokens[index_of(r)]);
      EXPECT_TRUE(r == 5 || same_bits(alone.probs[0], together.probs[index_of(r)]));
    }
  }
}

TEST_F(SamplingKernel, ARowWithoutADistributionHasNoToken) {
  TestNumbers numbers(8);
  Rows rows(numbers, 40, 70, 70);
  for (int r = 0; r < rows.rows(); ++r) {
    float* row = rows.logits.row(r);
    const int at = numbers.below(70);
    if (r % 4 == 0) row[at] = kNan;
    if (r % 4 == 1) row[at] = kInfinity;
    if (r % 4 == 2) std::fill(row, row + 70, -kInfinity);
    if (r % 4 == 3) row[69] = kNan;
    EXPECT_THROW(host_probs(rows.logits.view(), r, rows.choice(r).sampling, 70), Error);
  }
  for (const std::int32_t token : choose(rows, 0, 40).tokens) EXPECT_EQ(token, -1);
}

// A penalty makes the logit itself infinite.
TEST_F(SamplingKernel, APenaltyMayOverflow) {
  TestNumbers numbers(9);
  Rows rows(numbers, 2, 3, 3);
  rows.histories = {{0}, {0}};
  for (int r = 0; r < 2; ++r) {
    std::copy_n(std::vector<float>{r == 0 ? 1e30f : -1e30f, 1, 2}.begin(), 3, rows.logits.row(r));
    rows.choices[index_of(r)].by = DrawBy::kLargest;
    rows.choices[index_of(r)].sampling = {.temperature = 1,
                                          .repetition_penalty = r == 0 ? 1e-300 : 1e300,
                                          .history = rows.histories[index_of(r)]};
  }
  EXPECT_EQ(choose(rows, 0, 2).tokens, (std::vector<std::int32_t>{-1, 2}));
}

// Sizes that segments and blocks do not divide.
TEST_F(SamplingKernel, TheLastTokenCanBeDrawn) {
  TestNumbers numbers(11);
  for (const int V : {33, 701, 4099}) {
    Rows rows(numbers, 1, V, V);
    rows.logits.row(0)[V - 1] = 100;
    rows.choices[0] = {};
    EXPECT_EQ(choose(rows, 0, 1).tokens[0], V - 1);
  }
}

TEST_F(SamplingKernel, NothingIsChosenFromNoRows) {
  device().make_sampler({.vocab_size = 5})->choose({}, {}, {});
}

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
