// Stage 0's law, exactly: whatever the tables, speculation emits what the target alone would.
#include <random>

#include "stages/00_toy_speculation/enumeration.h"
#include "stages/00_toy_speculation/wrong_rules.h"
#include "tests/test_support.h"
#include "tests/unit/stages/00_toy_speculation/random_tables.h"

namespace specdec::toy {
namespace {

double total(const Law& law) {
  double sum = 0;
  for (const auto& [text, probability] : law) sum += probability;
  return sum;
}

double difference(const Tables& tables, int spec_length, const Rule& rule = {}) {
  const int length = spec_length + 2;  // more than a single round emits
  return largest_difference(speculation_law(tables, 0, spec_length, length, rule),
                            target_law(tables, 0, length));
}

// The law is the target's for K = 1 to 3.
void expect_exact(const Tables& tables, const std::string& what) {
  for (int spec_length = 1; spec_length <= 3; spec_length++) {
    EXPECT_LE(difference(tables, spec_length), kExact) << what << ", K = " << spec_length;
  }
}

// The probability that a round keeps exactly `accepted` drafts, 0..K.
std::vector<double> accepted_law(const Tables& tables, TokenId context, int spec_length) {
  std::vector<double> law(static_cast<std::size_t>(spec_length) + 1);
  EveryPath random;
  do {
    const Round round = speculative_round(tables, {context}, spec_length, random);
    law[static_cast<std::size_t>(round.accepted)] += random.probability();
  } while (random.next());
  return law;
}

TEST(ToyLawTest, IsTheTargetsForRandomTables) {
  std::mt19937 random(1);
  for (int V = 2; V <= 5; V++) {
    for (int i = 0; i < (V < 5 ? 20 : 5); i++) {
      expect_exact(random_tables(V, random), fmt::format("V = {}, tables {}", V, i));
    }
  }
}

TEST(ToyLawTest, IsTheTargetsForDisjointSupports) {
  const Tables tables = make_tables(4, [](TokenId context) {
    return context % 2 == 0 ? std::pair(Probs{0.25, 0.75, 0, 0}, Probs{0, 0, 0.5, 0.5})
                            : std::pair(Probs{0, 0, 0.5, 0.5}, Probs{0.25, 0.75, 0, 0});
  });
  expect_exact(tables, "disjoint");
  EXPECT_EQ(accepted_law(tables, 0, 3)[0], 1) << "no draft is ever kept";
}

TEST(ToyLawTest, IsTheTargetsForEqualTables) {
  std::mt19937 random(2);
  const Tables tables = make_tables(4, [&](TokenId) {
    const Probs row = random_row(4, random);
    return std::pair(row, row);
  });
  expect_exact(tables, "equal");
  const std::vector<double> accepted = accepted_law(tables, 0, 3);
  EXPECT_EQ(accepted[0] + accepted[1] + accepted[2], 0) << "every draft is kept";
  EXPECT_NEAR(accepted[3], 1, kExact);
}

TEST(ToyLawTest, IsTheTargetsForOneHotRows) {
  std::mt19937 random(3);
  for (int hot = 1; hot <= 3; hot++) {  // 1: the target's rows, 2: the draft's, 3: both
    const Tables tables = make_tables(3, [&](TokenId context) {
      return std::pair(hot & 1 ? one_hot(3, (context + 1) % 3) : random_row(3, random),
                       hot & 2 ? one_hot(3, (context + 1 + hot / 3) % 3) : random_row(3, random));
    });
    expect_exact(tables, fmt::format("one-hot {}", hot));
  }
}

TEST(ToyLawTest, DoesNotDependOnTheLengthAsked) {
  std::mt19937 random(4);
  const Tables tables = random_tables(3, random);
  for (int length = 1; length <= 6; length++) {
    EXPECT_LE(
        largest_difference(speculation_law(tables, 1, 3, length), target_law(tables, 1, length)),
        kExact)
        << length;
  }
}

TEST(ToyLawTest, SumsToOne) {
  std::mt19937 random(5);
  const Tables tables = random_tables(4, random);
  EXPECT_NEAR(total(round_law(tables, 0, 3)), 1, kExact);
  EXPECT_NEAR(total(speculation_law(tables, 0, 3, 5)), 1, kExact);
  EXPECT_NEAR(total(target_law(tables, 0, 5)), 1, kExact);
}

// The enumeration's own control: it must count every path, and weigh it right.
TEST(ToyLawTest, OfARoundIsTheOneComputedByHand) {
  const Tables tables = {.target_probs = {{0.25, 0.75}, {0.5, 0.5}},
                         .draft_probs = {{0.5, 0.5}, {1, 0}}};
  // After 0: draft 0 is kept with 1/2, draft 1 always, so 1/4 is rejected, and corrected to 1.
  const Law expected = {{{0, 0}, 0.25 * 0.25},
                        {{0, 1}, 0.25 * 0.75},
                        {{1}, 0.25},
                        {{1, 0}, 0.5 * 0.5},
                        {{1, 1}, 0.5 * 0.5}};
  EXPECT_EQ(round_law(tables, 0, 1), expected) << "a bonus follows every kept draft";
}

TEST(ToyLawTest, DifferenceSeesWhatIsMissingAndWhatIsNoNumber) {
  EXPECT_EQ(largest_difference({{{0}, 0.5}, {{1}, 0.5}}, {{{0}, 0.5}}), 0.5);
  EXPECT_EQ(largest_difference({{{0}, 0.5}}, {{{0}, 0.5}, {{1}, 0.25}}), 0.25);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_GT(largest_difference({{{0}, nan}, {{1}, 0.5}}, {{{0}, 0.5}, {{1}, 0.5}}), 1e9);
}

// Formula (1) with one acceptance probability everywhere: P(accepted > i) = alpha^(i+1).
TEST(ToyRoundTest, AcceptsAsOftenAsTheProbabilitiesSay) {
  const Tables tables = make_tables(3, [](TokenId) {
    return std::pair(Probs{0.5, 0.25, 0.25}, Probs{0.25, 0.25, 0.5});  // acceptance probability 3/4
  });
  const std::vector<double> accepted = accepted_law(tables, 0, 3);
  EXPECT_NEAR(accepted[0], 0.25, kExact);
  EXPECT_NEAR(accepted[1], 0.75 * 0.25, kExact);
  EXPECT_NEAR(accepted[2], 0.75 * 0.75 * 0.25, kExact);
  EXPECT_NEAR(accepted[3], 0.75 * 0.75 * 0.75, kExact);
}

TEST(ToyControlTest, EachWrongRuleHasAnotherLaw) {
  std::mt19937 random(6);
  for (int i = 0; i < 10; i++) {
    const Tables tables = make_tables(4, [&](TokenId) {  // no zeros: each rule matters
      std::uniform_real_distribution<double> weight(0.05, 1);
      Probs target_probs(4), draft_probs(4);
      for (double& prob : target_probs) prob = weight(random);
      for (double& prob : draft_probs) prob = weight(random);
      return std::pair(normalised(target_probs), normalised(draft_probs));
    });
    ASSERT_LE(difference(tables, 2), kExact);
    for (const WrongRule& wrong : kWrongRules) {
      EXPECT_GE(difference(tables, 2, wrong.rule), kVisible) << wrong.name;
    }
  }
}

TEST(ToyControlTest, TheWrongRulesAreWrongInTheirOwnWay) {
  const Probs target_probs = {0.5, 0.25, 0.25}, draft_probs = {0.25, 0.25, 0.5};
  EXPECT_EQ(kWrongRules[0].rule.correction(target_probs, draft_probs), target_probs);
  EXPECT_EQ(kWrongRules[1].rule.correction(target_probs, draft_probs), Probs({0.5, 0, 0.5}));
  EXPECT_EQ(kWrongRules[2].rule.bonus(target_probs, draft_probs), draft_probs);
}

TEST(ToyRoundTest, AcceptProbabilityIsTheRatioAtMostOne) {
  EXPECT_EQ(accept_probability(0.25, 0.5), 0.5);
  EXPECT_EQ(accept_probability(0.5, 0.25), 1);
  EXPECT_EQ(accept_probability(0, 0.25), 0);
  EXPECT_DEATH(accept_probability(0.5, 0), "can be drawn");
}

TEST(ToyRoundTest, ResidualIsWhatTheTargetHasMoreOf) {
  EXPECT_EQ(residual({0.5, 0.25, 0.25, 0}, {0.25, 0.25, 0, 0.5}), Probs({0.5, 0, 0.5, 0}))
      << "norm(max(0, p - q))";
  EXPECT_EQ(residual({0, 1}, {1, 0}), Probs({0, 1}));
}

TEST(ToyRoundTest, ResidualOfEqualRowsHasNoTokenThatTheTargetLacks) {
  const Probs row = {0, 0.5, 0, 0.5, 0};
  EXPECT_EQ(residual(row, row), row);
  EXPECT_EQ(residual(row, {0, 0.5, 1e-17, 0.5, 0}), row) << "equal up to rounding";
  for (const double u : {0.0, 0.25, 0.5, 0.75, 1 - 0x1p-53}) {
    EXPECT_GT(row[sample(residual(row, row), u)], 0) << u;
  }
}

// Every uniform 0: the draft's token has target probability 0, so even "0 <= 0" must not keep it.
TEST(ToyRoundTest, UniformZeroNeverAcceptsTheImpossible) {
  const Tables tables = make_tables(2, [](TokenId) {
    return std::pair(Probs{0, 1}, Probs{0.5, 0.5});
  });
  const Dice zero{[](int, Purpose) { return 0.0; }};
  const Round round = speculative_round(tables, {0}, 3, zero);
  EXPECT_EQ(round.drafts, Text({0, 0, 0}));
  EXPECT_EQ(round.accepted, 0) << "a token of target probability 0 was kept";
  EXPECT_EQ(round.emitted, Text({1}));
}

TEST(ToyRoundTest, NamesEveryUniformByPositionAndPurpose) {
  using enum Purpose;
  const Tables tables = make_tables(2, [](TokenId context) {
    return std::pair(Probs{0.5, 0.5}, context == 0 ? Probs{1, 0} : Probs{0.5, 0.5});
  });
  std::vector<std::pair<int, Purpose>> asked;
  const auto round = [&](double accept) {
    asked.clear();
    const Dice dice{[&](int position, Purpose purpose) {
      asked.emplace_back(position, purpose);
      return purpose == kAccept && position == 6 ? accept : 0.25;
    }};
    return speculative_round(tables, {1, 1, 0, 1, 0}, 2, dice);
  };
  Round result = round(0.25);  // both kept
  EXPECT_EQ(result.emitted, Text({0, 0, 0}));
  EXPECT_EQ(result.accepted, 2);
  using Asked = std::vector<std::pair<int, Purpose>>;
  const char* own = "each decision has a uniform of its own";
  EXPECT_EQ(asked, Asked({{5, kDraft}, {6, kDraft}, {5, kAccept}, {6, kAccept}, {7, kTarget}}))
      << own;
  result = round(0.75);  // the second one rejected
  EXPECT_EQ(result.emitted, Text({0, 1}));
  EXPECT_EQ(result.accepted, 1);
  EXPECT_EQ(asked, Asked({{5, kDraft}, {6, kDraft}, {5, kAccept}, {6, kAccept}, {6, kResample}}))
      << own;
}

// The dice and the paths are two ways through one round: frequencies approach the law. At 6 sigma,
// and 12 texts at most, a false alarm has a probability below 1e-7; the seed is fixed anyway.
TEST(ToyRoundTest, DiceFollowTheLaw) {
  constexpr int kRuns = 20000;
  std::mt19937 random(7);
  const Tables tables = random_tables(3, random);
  const Law law = round_law(tables, 0, 1);
  Law counted;
  for (std::uint64_t seed = 0; seed < kRuns; seed++) {
    const Dice dice{
        [&](int position, Purpose purpose) { return uniform(seed, position, purpose); }};
    counted[speculative_round(tables, {0}, 1, dice).emitted]++;
  }
  for (const auto& [text, count] : counted) ASSERT_TRUE(law.contains(text));
  for (const auto& [text, probability] : law) {
    const double sigma = std::sqrt(kRuns * probability * (1 - probability));
    EXPECT_NEAR(counted[text], kRuns * probability, 6 * sigma + 1);
  }
}

}  // namespace
}  // namespace specdec::toy
