// From logits to a distribution to a token: each filter by hand, all of them against a slow and
// plain version, and what must not be sampled.
#include "common/sampling/distribution.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "tests/special_numbers.h"
#include "tests/test_support.h"
#include "tests/unit/allocation_counter.h"

namespace specdec {
namespace {

using ::testing::ElementsAre;
using Probs = std::vector<double>;

std::vector<double> probs_of(const std::vector<float>& logits, const SamplingOptions& options,
                             const std::vector<TokenId>& history = {}) {
  SamplingScratch scratch(static_cast<int>(logits.size()));
  std::vector<double> probs(logits.size(), -1);
  probabilities(logits, history, options, scratch, probs);
  return probs;
}

// The tokens that can be sampled.
std::vector<TokenId> support(const std::vector<float>& logits, const SamplingOptions& options,
                             const std::vector<TokenId>& history = {}) {
  const auto probs = probs_of(logits, options, history);
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < probs.size(); i++) {
    if (probs[i] > 0) tokens.push_back(static_cast<TokenId>(i));
  }
  return tokens;
}

// ---- each step by hand ----

TEST(DistributionTest, TemperatureZeroTakesTheLowestOfTheLargest) {
  EXPECT_THAT(probs_of({1, 3, 2, 3}, {}), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(probs_of({-kInfinity, -5, -kInfinity}, {}), ElementsAre(0, 1, 0));
  EXPECT_THAT(probs_of({-0.0f, 0.0f}, {}), ElementsAre(1, 0)) << "zeros of both signs are equal";
  EXPECT_THAT(probs_of({1, 3, 3}, {.top_k = 3, .top_p = 0.1}), ElementsAre(0, 1, 0));
  EXPECT_THAT(probs_of({4, 3}, {.repetition_penalty = 2}, {0}), ElementsAre(0, 1)) << "penalised";
}

TEST(DistributionTest, SoftmaxAtATemperature) {
  const auto log3 = static_cast<float>(std::log(3.0));
  const auto probs = probs_of({0, log3}, {.temperature = 1});
  EXPECT_NEAR(probs[0], 0.25, 1e-7);
  EXPECT_NEAR(probs[1], 0.75, 1e-7);
  EXPECT_NEAR(probs_of({0, log3}, {.temperature = 0.5})[0], 0.1, 1e-7);
  EXPECT_THAT(probs_of({7, 7, -kInfinity, 7, 7}, {.temperature = 3}),
              ElementsAre(0.25, 0.25, 0, 0.25, 0.25));
}

TEST(DistributionTest, PenaltyGoesBySignAndCountsOnce) {
  const SamplingOptions options{.temperature = 1, .repetition_penalty = 2};
  const std::vector<float> penalised = {1, -6, 0, 2, -3};  // of 2, -3, 0, 2, -3
  const auto want = probs_of(penalised, {.temperature = 1});
  EXPECT_EQ(probs_of({2, -3, 0, 2, -3}, options, {0, 1, 2}), want);
  EXPECT_EQ(probs_of({2, -3, 0, 2, -3}, options, {1, 0, 1, 1, 2, 0, 0}), want);
}

TEST(DistributionTest, TopKKeepsWhatEqualsTheLast) {
  const auto with = [](int k) { return SamplingOptions{.temperature = 1, .top_k = k}; };
  const std::vector<float> logits = {2, 5, 3, 3, 1, 3};
  EXPECT_THAT(support(logits, with(1)), ElementsAre(1));
  for (const int k : {2, 3, 4}) EXPECT_THAT(support(logits, with(k)), ElementsAre(1, 2, 3, 5));
  EXPECT_THAT(support(logits, with(5)), ElementsAre(0, 1, 2, 3, 5));
  for (const int k : {0, 6, 7, 1 << 30}) EXPECT_EQ(support(logits, with(k)).size(), 6u);
  EXPECT_THAT(support({-kInfinity, 4, -kInfinity, 5}, with(3)), ElementsAre(1, 3));
}

TEST(DistributionTest, TopPKeepsTheLowerIdAmongEquals) {
  const auto with = [](double p) { return SamplingOptions{.temperature = 1, .top_p = p}; };
  const std::vector<float> equal = {7, 7, 7, 7};  // a quarter each
  EXPECT_THAT(support(equal, with(1e-9)), ElementsAre(0)) << "one always stays";
  EXPECT_THAT(support(equal, with(0.25)), ElementsAre(0));
  EXPECT_THAT(support(equal, with(0.26)), ElementsAre(0, 1)) << "those before hold 0.25";
  EXPECT_THAT(support(equal, with(0.75)), ElementsAre(0, 1, 2));
  EXPECT_THAT(support(equal, with(0.76)), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(support({1, 3, 2, 3}, with(0.7)), ElementsAre(1, 3)) << "0.40 each";
  EXPECT_THAT(probs_of({1, 3, 2, 3}, with(0.7)), ElementsAre(0, 0.5, 0, 0.5));
}

// Order matters where one filter's outcome depends on another's.
TEST(DistributionTest, StepsComeInTheirOrder) {
  const std::vector<float> logits = {0, 1, 2, 3};  // 0.03, 0.09, 0.24, 0.64
  EXPECT_THAT(support(logits, {.temperature = 1, .top_p = 0.7}), ElementsAre(2, 3));
  EXPECT_THAT(support(logits, {.temperature = 1, .top_k = 2, .top_p = 0.7}), ElementsAre(3))
      << "top-p sees what top-k left: 0.27 and 0.73";
  EXPECT_THAT(support(logits, {.temperature = 4, .top_p = 0.7}), ElementsAre(1, 2, 3))
      << "top-p sees the temperature: 0.17, 0.22, 0.28, 0.36";
  EXPECT_THAT(support(logits, {.temperature = 1, .top_k = 2, .repetition_penalty = 4}, {3}),
              ElementsAre(1, 2))
      << "top-k sees the penalty";
}

// ---- all of them against a slow and plain version ----

std::vector<double> softmax(const std::vector<double>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> weights;
  for (const double logit : logits) weights.push_back(std::exp(logit - largest));
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= total;
  return weights;
}

// Filters one after the other, each as its definition reads, by sorting.
std::vector<double> plain_probs(const std::vector<float>& row, const SamplingOptions& options,
                                const std::vector<TokenId>& history) {
  std::vector<double> logits(row.begin(), row.end());
  for (std::size_t i = 0; i < logits.size(); i++) {
    if (std::count(history.begin(), history.end(), static_cast<TokenId>(i)) == 0) continue;
    logits[i] *= logits[i] < 0 ? options.repetition_penalty : 1 / options.repetition_penalty;
  }
  for (double& logit : logits) logit /= options.temperature;
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(-logits[a], a) < std::pair(-logits[b], b);
  });
  const auto k = static_cast<std::size_t>(options.top_k);
  if (k > 0 && k < logits.size()) {
    const double last = logits[order[k - 1]];
    for (double& logit : logits) logit = logit >= last ? logit : -HUGE_VAL;
  }
  const auto probs = softmax(logits);
  double before = 0;
  for (const std::size_t token : order) {
    if (options.top_p < 1 && before >= options.top_p) logits[token] = -HUGE_VAL;
    before += probs[token];
  }
  return softmax(logits);
}

// The tokens that sorting keeps of a large vocabulary: few or many of them, with and without ties.
TEST(DistributionTest, KeepsWhatSortingKeeps) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 3);
  for (int n = 0; n < 60; n++) {
    std::vector<float> logits(1000 + 700 * (static_cast<std::size_t>(n) % 5));
    for (float& logit : logits) {
      logit = normal(random);
      if (n % 3 == 0) logit = std::round(logit * 4) / 4;
      if (n % 4 == 0 && logit < 0) logit = -kInfinity;
    }
    for (const int k : {0, 1, 7, 50, 300, 999}) {
      for (const double p : {1.0, 0.9973, 0.917, 0.513, 1e-5}) {
        const SamplingOptions options{n % 2 == 0 ? 1 : 3.7, k, p, 1};
        const auto got = probs_of(logits, options), want = plain_probs(logits, options, {});
        for (std::size_t i = 0; i < got.size(); i++) {
          ASSERT_EQ(got[i] > 0, want[i] > 0) << "case " << n << " k " << k << " p " << p;
          ASSERT_TRUE(std::abs(got[i] - want[i]) <= 1e-13);
        }
      }
    }
  }
}

struct RandomCase {
  std::vector<float> logits;
  std::vector<TokenId> history;
  SamplingOptions options;
};

// Small integers among the logits, so that there are ties; sometimes minus infinity.
RandomCase random_case(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  RandomCase made;
  const int V = 1 + below(40), grain = below(2) ? 1 : 64, masked = below(3) ? 0 : V / 2;
  for (int i = 0; i < V; i++) {
    made.logits.push_back(static_cast<float>(below(12 * grain) - 6 * grain) /
                          static_cast<float>(grain));
  }
  for (int i = 0; i < masked; i++) {
    made.logits[static_cast<std::size_t>(1 + below(V - 1))] = -kInfinity;
  }
  for (int i = below(8); i > 0; i--) made.history.push_back(below(V));
  // The fractions have no short binary form: no sum of probabilities equals such a top_p.
  made.options.temperature = std::vector{0.3, 0.7, 1.0, 1.7}[random() % 4];
  made.options.top_k = std::vector{0, 1, 3, 10, 100}[random() % 5];
  made.options.top_p = std::vector{1.0, 0.917, 0.513, 0.0371}[random() % 4];
  made.options.repetition_penalty = std::vector{1.0, 0.5, 2.0, 4.0}[random() % 4];
  return made;
}

TEST(DistributionTest, EqualsThePlainVersion) {
  std::mt19937 random(1);
  for (int n = 0; n < 3000; n++) {
    const RandomCase made = random_case(random);
    const auto got = probs_of(made.logits, made.options, made.history);
    const auto want = plain_probs(made.logits, made.options, made.history);
    double total = 0;
    for (std::size_t i = 0; i < got.size(); i++) {
      // A logit of up to 80 after the division is off by 80 x 2^-53, so are its exponential's
      // digits.
      ASSERT_TRUE(std::abs(got[i] - want[i]) <= 1e-13) << "case " << n << " token " << i;
      ASSERT_EQ(got[i] > 0, want[i] > 0) << "case " << n << " token " << i;
      total += got[i];
    }
    ASSERT_NEAR(total, 1, 1e-14);
  }
}

// One scratch for all rows and options: nothing of the row before is left.
TEST(DistributionTest, ScratchHasNoMemory) {
  std::mt19937 random(2);
  SamplingScratch scratch(24);
  std::vector<double> probs(24);
  for (int n = 0; n < 300;) {
    RandomCase made = random_case(random);
    if (made.logits.size() < 24) continue;
    made.logits.resize(24);
    std::erase_if(made.history, [](TokenId token) { return token >= 24; });
    probabilities(made.logits, made.history, made.options, scratch, probs);
    ASSERT_EQ(probs, probs_of(made.logits, made.options, made.history));
    n++;
  }
}

TEST(DistributionTest, AllocatesNothing) {
  std::vector<float> logits(1000);
  for (std::size_t i = 0; i < 1000; i++) logits[i] = static_cast<float>(i * 37 % 101) / 8;
  const std::vector<TokenId> history = {1, 2, 3, 999};
  SamplingScratch scratch(1000);
  std::vector<double> probs(1000);
  const auto before = allocations();
  for (const double temperature : {0.0, 0.8}) {
    probabilities(logits, history, {temperature, 50, 0.9, 1.3}, scratch, probs);
    sample(probs, 0.5);
  }
  EXPECT_EQ(allocations(), before);
}

// ---- numbers at the edges ----

TEST(DistributionTest, ExtremesStayFinite) {
  const float largest = std::numeric_limits<float>::max();
  EXPECT_THAT(probs_of({largest, -largest, largest}, {.temperature = 1}), ElementsAre(0.5, 0, 0.5));
  EXPECT_THAT(probs_of({1, 2, 2}, {.temperature = 1e-300}), ElementsAre(0, 0.5, 0.5));
  EXPECT_THAT(probs_of({1, 2, 2}, {.temperature = 5e-324, .top_k = 1, .top_p = 0.4}),
              ElementsAre(0, 1, 0));
  EXPECT_THAT(probs_of({1, 200}, {.temperature = 1e300}), ElementsAre(0.5, 0.5));
  EXPECT_THAT(probs_of({-1}, {.temperature = 1, .top_k = 1, .top_p = 0.5}), ElementsAre(1));
}

TEST(DistributionTest, RowsThatAreNoNumbersAreErrors) {
  const SamplingOptions all[] = {{}, {.temperature = 1}, {1, 2, 0.9, 1.5}, {0, 2, 0.9, 1.5}};
  for (const SamplingOptions& options : all) {
    const auto message = [&](const std::vector<float>& logits) {
      return error_message([&] { probs_of(logits, options, {1}); });
    };
    EXPECT_EQ(
        message({kNan, 1, 2, 3}),
        "the target's logit of token 0 is nan, so there is nothing to sample from; its weights "
        "may be damaged");
    EXPECT_THAT(message({1, kNan, 2, 3}), ::testing::HasSubstr("logit of token 1 is nan"));
    EXPECT_THAT(message({1, 2, 3, kNan}), ::testing::HasSubstr("logit of token 3 is nan"));
    EXPECT_THAT(message({-kNan, -kNan, -kNan, -kNan}), ::testing::HasSubstr("token 0 is"));
    EXPECT_THAT(message({1, 2, kInfinity, 3}), ::testing::HasSubstr("logit of token 2 is inf"));
    EXPECT_EQ(message(std::vector<float>(4, -kInfinity)),
              "the target's logits are all minus infinity, so there is nothing to sample from");
  }
  EXPECT_ERROR(probs_of({1, 2e38f}, {.temperature = 1, .repetition_penalty = 0.5}, {1}),
               "the repetition penalty makes the logit 2e+38 of token 1 infinite");
}

TEST(DistributionTest, OptionsOutOfRangeAreErrors) {
  const double nan = std::nan(""), infinity = HUGE_VAL;
  const auto message = [](const SamplingOptions& options) {
    const std::string checked = error_message([&] { check_sampling_options(options); });
    EXPECT_EQ(error_message([&] { probs_of({1, 2}, options); }), checked);
    return checked;
  };
  EXPECT_EQ(message({.temperature = -1}),
            "--temperature is -1; it takes a number of at least 0 (0: always the likeliest token)");
  EXPECT_EQ(message({.top_k = -3}), "--top-k is -3; it takes a number of tokens (0: no limit)");
  EXPECT_EQ(message({.top_p = 0}),
            "--top-p is 0; it takes a number above 0 and at most 1 (1: no limit)");
  EXPECT_EQ(
      message({.repetition_penalty = 0}),
      "--repetition-penalty is 0; it takes a number of at least 0.001 and at most 1000 (1: no "
      "penalty)");
  for (const double bad : {nan, infinity, -infinity, -1e-9}) {
    EXPECT_THAT(message({.temperature = bad}), ::testing::StartsWith("--temperature is "));
    EXPECT_THAT(message({.top_p = bad}), ::testing::StartsWith("--top-p is "));
    EXPECT_THAT(message({.repetition_penalty = bad}),
                ::testing::StartsWith("--repetition-penalty is "));
  }
  for (const double bad : {9e-4, 1e-308, 1001.0, 1e308}) {
    EXPECT_THAT(message({.repetition_penalty = bad}),
                ::testing::StartsWith("--repetition-penalty is "));
  }
  EXPECT_THAT(message({.top_p = 1.001}), ::testing::StartsWith("--top-p is 1.001;"));
  EXPECT_ERROR(check_temperature(-2, "--draft-temperature"), "--draft-temperature is -2;");
  EXPECT_EQ(message({}), "");
  EXPECT_EQ(message({1e-3, 1 << 30, 1e-9, 1e-3}), "");
}

// ---- drawing ----

TEST(SampleTest, InvertsTheCumulativeSumInTheOrderOfIds) {
  const std::vector<double> probs = {0.25, 0, 0.5, 0.25};
  for (const auto& [u, token] : std::vector<std::pair<double, TokenId>>{
           {0, 0}, {0.2499, 0}, {0.25, 2}, {0.5, 2}, {0.7499, 2}, {0.75, 3}, {0.9999, 3}}) {
    EXPECT_EQ(sample(probs, u), token) << u;
  }
}

TEST(SampleTest, NeverTakesTheImpossible) {
  const double last = std::nextafter(1.0, 0.0);
  EXPECT_EQ(sample(std::vector<double>{0, 0, 1, 0}, 0), 2);
  EXPECT_EQ(sample(std::vector<double>{0, 0, 1, 0}, last), 2);
  EXPECT_EQ(sample(std::vector<double>{0, 0.1, 0.2, 0.7, 0, 0}, last), 3);
  EXPECT_EQ(sample(std::vector<double>{0, 5e-324, 0}, last), 1) << "u x total rounds to the total";
  const std::vector<double> tenths(10, 0.1);  // whose sum is below 1
  EXPECT_EQ(sample(tenths, last), 9);
  const std::vector<double> thirds = {0, 0.3, 0, 0.3, 0};  // not normalised
  EXPECT_EQ(sample(thirds, 0.499), 1);
  EXPECT_EQ(sample(thirds, 0.5), 3);
}

// Every u of a fine grid: each token gets as many of them as its probability says, within one.
TEST(SampleTest, TokensGetTheirShare) {
  std::mt19937 random(3);
  constexpr int kGrid = 1 << 14;
  for (int n = 0; n < 20; n++) {
    RandomCase made = random_case(random);
    const auto probs = probs_of(made.logits, made.options, made.history);
    std::vector<int> counts(probs.size(), 0);
    for (int i = 0; i < kGrid; i++) {
      counts[static_cast<std::size_t>(sample(probs, static_cast<double>(i) / kGrid))]++;
    }
    for (std::size_t i = 0; i < probs.size(); i++) {
      EXPECT_NEAR(counts[i], probs[i] * kGrid, probs[i] > 0 ? 1 : 0) << "case " << n;
    }
  }
}

// Padding at the end changes no bit of what stands before it, whatever the options are.
TEST(DistributionTest, PaddingChangesNothing) {
  std::mt19937 random(4);
  for (int n = 0; n < 300; n++) {
    RandomCase made = random_case(random);
    const auto want = probs_of(made.logits, made.options, made.history);
    const std::size_t V = want.size();
    made.logits.resize(V + 1 + random() % 50, -kInfinity);
    made.history.push_back(static_cast<TokenId>(made.logits.size() - 1));  // of padding
    SamplingScratch scratch(static_cast<int>(made.logits.size() + random() % 3));
    std::vector<double> probs(made.logits.size(), -1);
    probabilities(made.logits, made.history, made.options, scratch, probs);
    ASSERT_TRUE(std::equal(want.begin(), want.end(), probs.begin())) << "case " << n;
    ASSERT_EQ(std::count(probs.begin() + std::ptrdiff_t(V), probs.end(), 0.0),
              std::ssize(probs) - std::ssize(want));
  }
}

TEST(DistributionDeathTest, MistakesAbort) {
  SamplingScratch scratch(2);
  std::vector<double> two(2), three(3);
  const std::vector<float> logits = {1, 2};
  const std::vector<TokenId> outside = {2}, negative = {-1};
  const SamplingOptions penalty{.repetition_penalty = 2};
  EXPECT_DEATH(probabilities(logits, {}, {}, scratch, three), "2 logits and 3 probabilities");
  EXPECT_DEATH(probabilities(std::vector<float>{1, 2, 3}, {}, {}, scratch, three), "scratch's 2");
  EXPECT_DEATH(probabilities(logits, outside, penalty, scratch, two), "token 2 of the history");
  EXPECT_DEATH(probabilities(logits, negative, penalty, scratch, two), "token -1 of the history");
  EXPECT_DEATH(sample(Probs({0.5, 0.5}), 1), "a uniform of at least 0 and below 1, not 1");
  EXPECT_DEATH(sample(Probs({0.5, 0.5}), std::nan("")), "below 1, not (-)?nan");
  EXPECT_DEATH(sample(Probs({0, 0}), 0.5), "finite total of the probabilities, not 0");
  EXPECT_DEATH(sample(Probs({0.5, std::nan("")}), 0.1), "a probability of at least 0, not (-)?nan");
  EXPECT_DEATH(sample(Probs({1.5, -0.5}), 0.1), "a probability of at least 0, not -0.5");
  EXPECT_DEATH(sample(Probs({HUGE_VAL, 1}), 0.1), "finite total of the probabilities, not inf");
}

}  // namespace
}  // namespace specdec
