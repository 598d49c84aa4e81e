// Stage 5's law, exactly: the code that the program runs - drafter, verification, rule, stop
// conditions, rollback, round after round - walked along every path. What comes out has the law of
// the target alone.
#include "tests/unit/stages/05_rejection_sampling/rejection_law.h"

#include "tests/test_support.h"

namespace specdec::law {
namespace {

// The names of the rules that are checked: coupled is not, because races have too many paths.
class RejectionLawTest : public ::testing::TestWithParam<std::string> {
 protected:
  void expect_target_law(Scenario scenario, bool by_rounds = false) {
    scenario.options.rule = &find_acceptance_rule(GetParam());
    const Law law = by_rounds ? speculation_law_by_rounds(scenario) : speculation_law(scenario);
    const double difference = largest_difference(law, target_law(scenario));
    EXPECT_TRUE(difference <= kExact) << scenario.name << ": " << difference;
  }
};

INSTANTIATE_TEST_SUITE_P(Rules, RejectionLawTest,
                         ::testing::Values("rejection", "at-least", "non-iterative",
                                           "sample-and-match", "one-hot"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

constexpr Size kSizes[] = {{2, 1, 4}, {2, 2, 4}, {2, 3, 4}, {3, 1, 4}, {3, 2, 3}, {4, 1, 3}};

TEST_P(RejectionLawTest, IsTheTargetsWhateverTheRows) {
  for (const Size& size : kSizes) {
    for (const Scenario& scenario : scenarios(size, 1)) expect_target_law(scenario);
  }
}

TEST_P(RejectionLawTest, IsTheTargetsWhateverTheOptions) {
  for (const Size& size : {Size{2, 3, 4}, Size{3, 2, 3}, Size{4, 1, 3}}) {
    for (const Scenario& scenario : scenarios_with_options(size, 11)) expect_target_law(scenario);
  }
}

// An eos inside a round, the last allowed token inside a round, an eos that is the last one.
TEST_P(RejectionLawTest, IsTheTargetsWithAnEos) {
  for (const Size& size : {Size{2, 3, 4}, Size{3, 2, 4}, Size{3, 3, 2}, Size{4, 2, 2}}) {
    for (Scenario& scenario : scenarios(size, 21)) {
      scenario.eos_ids = {static_cast<TokenId>(size.V - 1)};
      expect_target_law(scenario);
    }
  }
}

// The target's context ends with the last token, so the last rounds are shorter; the draft's ends
// before, and plain steps follow. The fake models refuse what exceeds their context.
TEST_P(RejectionLawTest, IsTheTargetsNearTheContextsEnd) {
  for (const Size& size : {Size{2, 3, 5}, Size{3, 2, 4}, Size{3, 3, 3}}) {
    for (Scenario& scenario : scenarios(size, 31)) {
      const int end = static_cast<int>(scenario.prompt.size()) + scenario.new_tokens;
      scenario.context_limit = end;
      expect_target_law(scenario);
      scenario.context_limit = kNoLimit;
      scenario.draft_context_limit = end - 2;
      expect_target_law(scenario);
      scenario.draft_context_limit = 1;  // none: every round is a plain step
      expect_target_law(scenario);
    }
  }
}

// K of every round depends on the rounds before it: 1 at first, 0 after a rejection, 2 after an
// acceptance, and back.
TEST_P(RejectionLawTest, IsTheTargetsWhereKAdapts) {
  const std::vector<double> moody = {1, 1.7, 2.34}, eager = {1, 1.5, 1.52, 1.56};
  for (const Size& size : {Size{2, 3, 5}, Size{3, 3, 3}}) {
    for (Scenario& scenario : scenarios(size, 91)) {
      for (const auto& costs : {moody, eager}) {
        scenario.round_costs = costs;
        expect_target_law(scenario);
      }
    }
  }
}

TEST(RejectionLawControl, KDidAdapt) {
  Scenario scenario = scenarios({2, 3, 5}, 91)[0];
  scenario.round_costs = {1, 1.7, 2.34};
  std::set<std::vector<int>> schedules;
  walk(
      scenario, scenario.prompt, request_of(scenario.prompt, scenario.new_tokens),
      [](const Generation&) { return false; },
      [&](const Generation&, const std::vector<Round>& rounds, double) {
        std::vector<int> schedule;
        for (const Round& round : rounds) schedule.push_back(round.drafted);
        schedules.insert(schedule);
      });
  EXPECT_TRUE(schedules.contains({1, 0, 0, 0, 0}));
  EXPECT_TRUE(schedules.contains({1, 2}));
  EXPECT_TRUE(schedules.contains({1, 2, 1})) << "a rejection after an acceptance";
}

TEST_P(RejectionLawTest, IsTheTargetsForFiveTokensAndThreeDrafts) {
  const Rows zeros = random_rows(5, 0.3), any = random_rows(5, 0);
  expect_target_law(scenario("by rounds", {5, 3, 4}, 41, zeros, any, 42), true);
  Scenario filtered = scenario("by rounds, filtered", {5, 3, 5}, 43, any, any, 44);
  filtered.options.sampling = {.temperature = 0.9, .top_k = 3, .repetition_penalty = 1.3};
  filtered.eos_ids = {4};
  expect_target_law(filtered, true);
}

TEST_P(RejectionLawTest, IsTheTargetsOnTheBigGrid) {
  if (!full()) GTEST_SKIP() << "NOT CHECKED: needs minutes; set SPECDEC_FULL=1 (make test-full)";
  for (const Size& size : {Size{2, 3, 6}, Size{3, 3, 3}, Size{3, 2, 4}, Size{5, 2, 2}}) {
    for (const Scenario& scenario : scenarios(size, 51)) expect_target_law(scenario);
  }
  for (Scenario& scenario : scenarios_with_options({5, 3, 4}, 61)) {
    scenario.eos_ids = {3};
    expect_target_law(scenario, true);
  }
}

// ---- checks of the check ----

// p = (0.25, 0.75) and q = (0.5, 0.5) everywhere: the draft 0 is kept with 1/2, the draft 1 always,
// so 1/4 is rejected and corrected to 1.
TEST(RejectionLawControl, ARoundsPathsAreTheOnesFoundByHand) {
  const auto constant = [](std::vector<double> row) {
    return [row](int, std::mt19937&) { return row; };
  };
  const Scenario scenario =
      law::scenario("by hand", {2, 1, 2}, 1, constant({0.25, 0.75}), constant({0.5, 0.5}), 1);
  std::map<std::pair<Text, int>, double> paths;  // what the first round emitted and accepted
  walk(
      scenario, scenario.prompt, request_of(scenario.prompt, 2),
      [](const Generation& generation) { return !generation.tokens().empty(); },
      [&](const Generation& generation, const std::vector<Round>& rounds, double probability) {
        paths[{text_of(generation), rounds[0].accepted}] += probability;
      });
  const std::map<std::pair<Text, int>, double> expected = {{{{0, 0}, 1}, 0.25 * 0.25},
                                                           {{{0, 1}, 1}, 0.25 * 0.75},
                                                           {{{1}, 0}, 0.25},
                                                           {{{1, 0}, 1}, 0.5 * 0.25},
                                                           {{{1, 1}, 1}, 0.5 * 0.75}};
  ASSERT_EQ(paths.size(), expected.size());
  for (const auto& [path, probability] : expected) {
    EXPECT_NEAR(paths[path], probability, 1e-7) << "logits are float32";
  }
}

TEST(RejectionLawControl, BothWaysOfWalkingAgree) {
  for (Scenario& scenario : scenarios({3, 2, 3}, 71)) {
    scenario.options.sampling.repetition_penalty = 1.5;
    EXPECT_TRUE(largest_difference(speculation_law(scenario),
                                   speculation_law_by_rounds(scenario)) <= kExact)
        << scenario.name;
  }
}

TEST(RejectionLawControl, TheLawsSumToOne) {
  for (const Scenario& scenario : scenarios({3, 2, 3}, 81)) {
    for (const Law& law : {speculation_law(scenario), target_law(scenario)}) {
      double total = 0;
      for (const auto& [text, probability] : law) total += probability;
      EXPECT_TRUE(std::abs(total - 1) <= kExact) << scenario.name << ": " << total;
    }
  }
}

TEST(RejectionLawControl, ADifferenceThatIsNoNumberIsLarge) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(largest_difference({{{0}, nan}}, {{{0}, 1.0}}),
            std::numeric_limits<double>::infinity());
  EXPECT_EQ(largest_difference({{{0}, 0.5}}, {{{0}, 0.5}, {{1}, 0.25}}), 0.25);
}

}  // namespace
}  // namespace specdec::law
