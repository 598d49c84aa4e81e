// Rounds with drafts that are right with probability alpha, independently of each other: what the
// formulas of Leviathan et al. assume. The real loop must then emit what equation (1) says.
#include <cmath>

#include "common/run_stats.h"
#include "common/speculation/count_round.h"
#include "common/speculation/paper_formulas.h"
#include "tests/speculation_fixture.h"

namespace specdec {
namespace {

constexpr int kWords = 8;
constexpr int kRounds = 20'000;
constexpr double kAlphas[] = {0, 0.3, 0.6, 0.8, 0.95, 1};
constexpr int kSpecLengths[] = {1, 2, 3, 5, 8};

// Of all comparisons of this file together; each one is made with its share.
constexpr double kFalseAlarm = 1e-6;
constexpr int kComparisons = 6 * 5 + 6 * (1 + 2 + 3 + 5 + 8) + 6 * 5;

// The next token by the last two and the length, so that a wrong context or row says another one.
TokenId next_token(std::span<const TokenId> prefix) {
  const std::size_t n = prefix.size();
  const auto before = static_cast<std::size_t>(n < 2 ? 0 : prefix[n - 2]);
  return static_cast<TokenId>((5 * static_cast<std::size_t>(prefix[n - 1]) + before + n) % kWords);
}

class SayNext {
 public:
  std::span<const float> operator()(std::span<const TokenId> prefix) {
    row_.assign(kWords, 0.f);
    row_[static_cast<std::size_t>(next_token(prefix))] = 1;
    return row_;
  }

 private:
  std::vector<float> row_;  // [V]
};

RunStats run_rounds(double alpha, int spec_length) {
  std::vector<TokenId> text = {1};
  while (std::ssize(text) < kRounds * (spec_length + 1) + spec_length + 2) {
    text.push_back(next_token(text));
  }
  const Asked request = ids_request({1}, static_cast<int>(text.size()));
  SyntheticDrafter drafter(std::move(text), alpha, 12345u + unsigned(spec_length), kWords);
  TableModel target(kWords, SayNext());
  DraftAndVerify steps(target, drafter, spec_length, 1 << 20);
  Generation generation(request, request.tokenizer_or_null());
  std::vector<TokenId> context = request.prompt;
  RunStats stats;
  for (int i = 0; i < kRounds; i++) count_round(stats, greedy_round(steps, context, generation));
  return stats;
}

// How far the mean of n independent numbers with this variance, each at most `range` from its
// expectation, may be off: Bernstein's inequality, P(|error| >= t) <= 2 exp(-n t^2 / (2 variance +
// 2 range t / 3)), solved for t. No normal approximation, so it also holds far out. A number that
// never varies must be met but for rounding.
double allowed_error(double variance, double range, int n, double false_alarm) {
  if (variance <= 1e-12) return 1e-9;
  const double log_odds = std::log(2 / false_alarm), linear = range * log_odds / 3;
  return (linear + std::sqrt(linear * linear + 2 * n * variance * log_odds)) / n;
}

// Of the tokens that a round emits: n + 1 with n accepted of K, a geometric number capped at K.
double emitted_variance(double alpha, int K) {
  const double mean = expected_emitted(alpha, K);
  double square = std::pow(alpha, K) * (K + 1) * (K + 1);
  for (int n = 0; n < K; n++) square += std::pow(alpha, n) * (1 - alpha) * (n + 1) * (n + 1);
  return square - mean * mean;
}

double allowed_error_of_emitted(double alpha, int K) {
  return allowed_error(emitted_variance(alpha, K), K, kRounds, kFalseAlarm / kComparisons);
}

class SyntheticDraftTest : public ::testing::TestWithParam<int> {};

TEST_P(SyntheticDraftTest, RoundsEmitWhatEquation1Says) {
  const int K = GetParam();
  for (const double alpha : kAlphas) {
    SCOPED_TRACE(fmt::format("alpha {}", alpha));
    const RunStats stats = run_rounds(alpha, K);
    const double emitted = static_cast<double>(stats.emitted) / kRounds;
    EXPECT_LE(std::abs(emitted - expected_emitted(alpha, K)), allowed_error_of_emitted(alpha, K));
    // Draft i is accepted where it and all before it are right.
    ASSERT_EQ(std::ssize(stats.accepted_at), K);
    for (int i = 0; i < K; i++) {
      const auto at = static_cast<std::size_t>(i);
      EXPECT_EQ(stats.drafted_at[at], kRounds);
      const double probability = std::pow(alpha, i + 1);
      const double share = static_cast<double>(stats.accepted_at[at]) / kRounds;
      EXPECT_LE(std::abs(share - probability), allowed_error(probability * (1 - probability), 1,
                                                             kRounds, kFalseAlarm / kComparisons))
          << "draft " << i;
    }
    // alpha = accepted / tested. In accepted - alpha x tested each test adds a difference that is
    // zero on average and ranges over 1, in at most n K tests: Azuma's inequality.
    const double sum = static_cast<double>(stats.accepted) - alpha * double(stats.tested);
    EXPECT_LE(std::abs(sum),
              std::sqrt(0.5 * kRounds * K * std::log(2 * kComparisons / kFalseAlarm)));
  }
}

// The control: formulas with a mistake must not pass for the right one.
TEST_P(SyntheticDraftTest, OtherFormulasAreToldApart) {
  const int K = GetParam();
  int told_apart = 0;
  for (const double alpha : {0.6, 0.8, 0.9, 0.95, 1.0}) {
    SCOPED_TRACE(fmt::format("alpha {}", alpha));
    const double emitted = static_cast<double>(run_rounds(alpha, K).emitted) / kRounds;
    const double allowed = allowed_error_of_emitted(alpha, K);
    const double without_bonus = expected_emitted(alpha, K) - std::pow(alpha, K);
    if (std::pow(alpha, K) > 1.5 * allowed) {  // or rounds are too few to see it
      EXPECT_GT(std::abs(emitted - without_bonus), allowed);
      told_apart++;
    }
    EXPECT_GT(std::abs(emitted - expected_emitted(alpha - 0.06, K)), allowed);
    if (alpha < 1) {
      EXPECT_GT(std::abs(emitted - expected_emitted(alpha + 0.04, K)), allowed);
    }
  }
  EXPECT_GE(told_apart, 3);
}

INSTANTIATE_TEST_SUITE_P(SpecLengths, SyntheticDraftTest, ::testing::ValuesIn(kSpecLengths));

}  // namespace
}  // namespace specdec
