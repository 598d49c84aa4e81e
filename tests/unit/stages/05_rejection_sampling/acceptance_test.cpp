// The acceptance rules one by one: the law of a single position, and how often each accepts.
#include "stages/05_rejection_sampling/acceptance.h"

#include <functional>

#include "tests/every_path.h"
#include "tests/table_model.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

constexpr double kExact = 1e-12;

// What a rule makes of a draft that is drawn from q.
struct PositionLaw {
  Probs emitted;
  double accepted = 0;
};

PositionLaw position_law(AcceptanceRule rule, const Probs& target_probs, const Probs& draft_probs,
                         double lenience = 1) {
  PositionLaw law{Probs(target_probs.size())};
  Probs scratch(target_probs.size());
  EveryPath random;
  do {
    const TokenId draft = random.token(draft_probs, 7, Purpose::kDraft);
    const Decision decision =
        rule({7, draft, target_probs, draft_probs, lenience}, random, scratch);
    EXPECT_TRUE(!decision.accepted || decision.token == draft) << "accepted is the draft";
    law.emitted[static_cast<std::size_t>(decision.token)] += random.probability();
    if (decision.accepted) law.accepted += random.probability();
  } while (random.next());
  return law;
}

// The sum over all tokens of f(p, q).
double sum(const Probs& p, const Probs& q, const std::function<double(double, double)>& f) {
  double total = 0;
  for (std::size_t i = 0; i < p.size(); i++) total += f(p[i], q[i]);
  return total;
}

double acceptance_prob(const Probs& p, const Probs& q) {
  return sum(p, q, [](double a, double b) { return std::min(a, b); });
}

double kept_at_least(const Probs& p, const Probs& q) {
  return sum(p, q, [](double a, double b) { return a >= b ? b : 0; });
}

double one_over_largest_ratio(const Probs& p, const Probs& q) {
  double largest = 0;
  for (std::size_t i = 0; i < p.size(); i++) {
    if (p[i] > 0) largest = std::max(largest, p[i] / q[i]);
  }
  return 1 / largest;
}

double matches(const Probs& p, const Probs& q) {
  return sum(p, q, [](double a, double b) { return a * b; });
}

struct Formula {
  const char* rule;
  double (*accepted)(const Probs& p, const Probs& q);
};

constexpr Formula kLossless[] = {{"rejection", acceptance_prob},
                                 {"at-least", kept_at_least},
                                 {"non-iterative", one_over_largest_ratio},
                                 {"sample-and-match", matches},
                                 {"one-hot", matches}};

TEST(AcceptanceTest, LosslessRulesEmitTheTargetsLaw) {
  for (const Formula& formula : kLossless) {
    for (const auto& [p, q] : pairs_of_probs()) {
      const PositionLaw law = position_law(find_acceptance_rule(formula.rule).rule, p, q);
      for (std::size_t i = 0; i < p.size(); i++) {
        EXPECT_TRUE(std::abs(law.emitted[i] - p[i]) <= kExact) << formula.rule << ", token " << i;
      }
    }
  }
}

TEST(AcceptanceTest, EachRuleAcceptsAsOftenAsItsFormulaSays) {
  for (const Formula& formula : kLossless) {
    for (const auto& [p, q] : pairs_of_probs()) {
      const double accepted = position_law(find_acceptance_rule(formula.rule).rule, p, q).accepted;
      const double expected = formula.accepted(p, q);
      EXPECT_TRUE(std::abs(accepted - expected) <= kExact)
          << formula.rule << ": " << accepted << ", want " << expected;
      EXPECT_TRUE(accepted <= acceptance_prob(p, q) + kExact)
          << "no rule accepts more than sum min(p, q)";
    }
  }
}

TEST(AcceptanceTest, LenientKeepsToItsBoundAndItsFormula) {
  for (const double lenience : {1.0, 0.8, 0.3, 0.01}) {
    for (const auto& [p, q] : pairs_of_probs()) {
      const PositionLaw law = position_law(lenient, p, q, lenience);
      const double expected =
          sum(p, q, [&](double a, double b) { return std::min(a / lenience, b); });
      EXPECT_TRUE(std::abs(law.accepted - expected) <= kExact) << law.accepted;
      for (std::size_t i = 0; i < p.size(); i++) {
        EXPECT_TRUE(law.emitted[i] <= p[i] / lenience + kExact) << lenience << ", token " << i;
      }
    }
  }
}

TEST(AcceptanceTest, LenientIsRejectionWithoutLenience) {
  for (const auto& [p, q] : pairs_of_probs()) {
    EXPECT_EQ(position_law(lenient, p, q, 1).emitted, position_law(rejection, p, q).emitted);
  }
}

TEST(AcceptanceTest, LenientArgmaxKeepsWhatIsNearTheLikeliest) {
  const Probs p = {0.25, 0.5, 0, 0.125, 0.125}, q = {0.2, 0.2, 0.2, 0.2, 0.2};
  EXPECT_EQ(position_law(lenient_argmax, p, q, 1).emitted, Probs({0, 1, 0, 0, 0}));
  EXPECT_EQ(position_law(lenient_argmax, p, q, 0.500001).emitted, Probs({0, 1, 0, 0, 0}));
  const PositionLaw half = position_law(lenient_argmax, p, q, 0.5);
  EXPECT_NEAR(half.accepted, 0.4, kExact);
  EXPECT_NEAR(half.emitted[0], 0.2, kExact);
  EXPECT_NEAR(half.emitted[1], 0.8, kExact);
  EXPECT_EQ(position_law(lenient_argmax, p, q, 1e-9).emitted[2], 0) << "p = 0 is never near";
}

TEST(AcceptanceTest, ResidualSkippedEmitsTheDraftsFavouritesTooOften) {
  const Probs p = {0.5, 0.25, 0.25}, q = {0.25, 0.25, 0.5};
  const PositionLaw law = position_law(residual_skipped, p, q);
  EXPECT_NEAR(law.accepted, 0.75, kExact) << "as rejection()";
  EXPECT_NEAR(law.emitted[0], 0.25 + 0.25 * 0.5, kExact);
  EXPECT_NEAR(law.emitted[2], 0.25 + 0.25 * 0.25, kExact);
}

// What certain drafts carry: no distribution at all.
TEST(AcceptanceTest, NoDistributionMeansOneHot) {
  const Probs p = {0.25, 0.625, 0.125};
  for (const Formula& formula : kLossless) {
    const AcceptanceRule rule = find_acceptance_rule(formula.rule).rule;
    for (TokenId draft = 0; draft < 3; draft++) {
      Probs one_hot(3), emitted(3), scratch(3);
      one_hot[static_cast<std::size_t>(draft)] = 1;
      EveryPath random;
      do {
        const Decision decision = rule({7, draft, p, {}}, random, scratch);
        emitted[static_cast<std::size_t>(decision.token)] += random.probability();
      } while (random.next());
      const Probs explicit_law = position_law(rule, p, one_hot).emitted;
      for (std::size_t i = 0; i < 3; i++) EXPECT_NEAR(emitted[i], explicit_law[i], kExact);
    }
  }
}

// ---- names and options ----

TEST(AcceptanceRules, AreFoundByTheirNames) {
  std::vector<std::string> names, lossy, races;
  for (const NamedRule& rule : acceptance_rules()) {
    EXPECT_EQ(&find_acceptance_rule(rule.name), &rule);
    EXPECT_NE(rule.rule, nullptr);
    EXPECT_FALSE(rule.summary.empty());
    names.emplace_back(rule.name);
    if (!rule.lossless) lossy.emplace_back(rule.name);
    if (rule.races) races.emplace_back(rule.name);
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("rejection", "at-least", "non-iterative",
                                                     "sample-and-match", "one-hot", "coupled",
                                                     "residual-skipped"));
  EXPECT_EQ(lossy, std::vector<std::string>{"residual-skipped"});
  EXPECT_EQ(races, std::vector<std::string>{"coupled"});
}

// Writes down which draws are asked for.
class Spy final : public RandomSource {
 public:
  TokenId token(std::span<const double> probs, int position, Purpose purpose, int index) override {
    purposes.insert(purpose);
    return dice_.token(probs, position, purpose, index);
  }
  bool accept(double probability, int position, int index) override {
    purposes.insert(Purpose::kAccept);
    return dice_.accept(probability, position, index);
  }
  TokenId race(std::span<const double> probs, int position) override {
    purposes.insert(Purpose::kRace);
    return dice_.race(probs, position);
  }

  std::set<Purpose> purposes;

 private:
  Dice dice_{1};
};

TEST(AcceptanceRules, DrawForThePurposesThatTheyName) {
  for (const NamedRule& rule : acceptance_rules()) {
    Spy spy;
    int position = 0;
    for (const auto& [p, q] : pairs_of_probs()) {
      for (TokenId draft = 0; draft < std::ssize(q); draft++) {
        if (q[static_cast<std::size_t>(draft)] == 0) continue;
        Probs scratch(p.size());
        rule.rule({position++, draft, p, q}, spy, scratch);
      }
    }
    std::set<Purpose> expected = {rule.races ? Purpose::kRace : rule.correction};
    if (rule.tests_by_uniform) expected.insert(Purpose::kAccept);
    EXPECT_EQ(spy.purposes, expected) << rule.name;
  }
}

TEST(AcceptanceRules, AnUnknownNameListsThem) {
  EXPECT_ERROR(find_acceptance_rule("typo"),
               "--acceptance typo: there is no such rule; there are rejection, at-least");
  EXPECT_ERROR(find_acceptance_rule(""), "there is no such rule");
  EXPECT_ERROR(find_acceptance_rule("Rejection"), "there is no such rule");
  EXPECT_ERROR(find_acceptance_rule("lenient"), "coupled, residual-skipped");
}

}  // namespace
}  // namespace specdec
