// What trees accept, worked out by hand or by the papers; and the mistakes that trees invite, each
// of which has another law.
#include <set>
#include <utility>

#include "tests/quarter_dice.h"
#include "tests/test_support.h"
#include "tests/unit/stages/08_token_trees/tree_law.h"

namespace specdec::law {
namespace {

// Stage 0's row after "the", at every place.
Scenario same_row(int levels, int new_tokens) {
  const auto always = [](std::vector<double> row) {
    return ContextTable(static_cast<int>(row.size()), [=](int) { return row; });
  };
  return {.name = "after \"the\"",
          .target = always({.05, .70, .05, .20}),
          .draft = always({.25, .45, .20, .10}),
          .spec_length = levels,
          .new_tokens = new_tokens};
}

double off(const TreeLaw& law, const Scenario& scenario) {
  return largest_difference(law.law, target_law(scenario));
}

// ---- what is accepted

TEST(TreeAcceptanceTest, IsWhatWasWorkedOutForOneLevel) {
  const double independent[] = {.65, .8425, .92912, .95784}, likeliest[] = {.70, .75, .80, 1};
  const double distinct[] = {.65, .89979, .96364, 1};
  const Scenario scenario = same_row(1, 1);
  for (int n = 1; n <= 4; n++) {
    const auto accepted = [&](const MakeTreeShape& make) {
      return tree_law(scenario, make, kRejection).accepted;
    };
    EXPECT_NEAR(accepted(shape<Chains>(n, 1)), independent[n - 1], 1e-5) << n;
    EXPECT_NEAR(accepted(shape<DistinctDrafts>(std::vector{n})), distinct[n - 1], 1e-5) << n;
    EXPECT_NEAR(accepted([=] { return widths({n}); }), likeliest[n - 1], 1e-5) << n;
  }
}

// The example of Sun et al. 2024, "Block Verification", section 2: p = (1/3, 2/3), q = (2/3, 1/3).
TEST(TreeAcceptanceTest, OfABlockIsThePapers) {
  Scenario scenario = same_row(2, 3);
  scenario.target = ContextTable(2, [](int) { return std::vector{1. / 3, 2. / 3}; });
  scenario.draft = ContextTable(2, [](int) { return std::vector{2. / 3, 1. / 3}; });
  const auto chain = shape<Chains>(1, 2);
  EXPECT_NEAR(tree_law(scenario, chain, kRejection).accepted, 10. / 9, kRow);
  EXPECT_NEAR(tree_law(scenario, chain, find_sibling_rule("block")).accepted, 11. / 9, kRow);
}

TEST(TreeAcceptanceTest, ABlockNeverAcceptsLessThanTokenByToken) {
  int more = 0;
  for (const Size& size : {Size{2, 3, 4}, Size{3, 3, 2}, Size{4, 2, 2}}) {
    for (const Scenario& scenario : scenarios(size, 81)) {
      const auto chain = shape<Chains>(1, size.K);
      const double tokens = tree_law(scenario, chain, kRejection).accepted;
      const double block = tree_law(scenario, chain, find_sibling_rule("block")).accepted;
      EXPECT_GE(block, tokens - kExact) << scenario.name;
      more += block > tokens + 1e-6;
    }
  }
  EXPECT_GE(more, 8) << "and in a third of these it accepts more";
}

// More drafts after a node never accept less, and k-sequential selection keeps its guarantee of
// 1 - 1/e of the best (Sun et al. 2023, theorem 1), which is at most the sum of min(p, n q).
TEST(TreeAcceptanceTest, GrowsWithTheDrafts) {
  for (const Scenario& scenario : scenarios({3, 1, 1}, 82)) {
    const std::vector<double> p = target_probs_after(scenario, {});
    const auto q = standardised(scenario.draft.row(scenario.prompt), scenario.prompt,
                                {.temperature = scenario.options.draft_temperature});
    double before = 0;
    for (int n = 1; n <= 3; n++) {
      const double accepted = tree_law(scenario, shape<Chains>(n, 1), kRejection).accepted;
      EXPECT_GE(accepted, before - kExact) << scenario.name;
      before = accepted;
      double most = 0;
      for (std::size_t i = 0; i < p.size(); i++) most += std::min(p[i], n * q[i]);
      const double selected =
          tree_law(scenario, shape<Chains>(n, 1), find_sibling_rule("k-sequential")).accepted;
      EXPECT_LE(selected, std::min(most, 1.0) + 1e-6) << scenario.name;
      EXPECT_GE(selected, (1 - std::exp(-1.0)) * std::min(most, 1.0) * 0.999) << scenario.name;
    }
  }
}

// ---- mistakes

// The trials in another order, or fewer of them, judged as if nothing had happened.
template <auto arrange>
SiblingDecision arranged(const Siblings& siblings, RandomSource& random, std::span<double> owed) {
  std::vector<Drafts::Trial> trials(siblings.trials.begin(), siblings.trials.end());
  arrange(siblings, trials);
  return rejection_chain({siblings.position, siblings.tree, trials, siblings.target_probs}, random,
                         owed);
}

void merge(const Siblings&, std::vector<Drafts::Trial>& trials) {
  std::set<int> seen;
  std::erase_if(trials, [&](const auto& trial) { return !seen.insert(trial.node).second; });
}
void sort_by_token(const Siblings& siblings, std::vector<Drafts::Trial>& trials) {
  std::ranges::stable_sort(trials, {}, [&](const auto& t) { return siblings.token(t); });
}
void sort_by_probability(const Siblings& siblings, std::vector<Drafts::Trial>& trials) {
  std::ranges::stable_sort(trials, std::ranges::greater{},
                           [&](const auto& t) { return siblings.tree.node(t.node).draft_prob; });
}
// Drafts without replacement, all judged by what the first was drawn from.
void forget_replacement(const Siblings&, std::vector<Drafts::Trial>& trials) {
  for (auto& trial : trials) trial.probs = trials.front().probs;
}

// Each trial against the target itself, as if none had been rejected before it.
SiblingDecision forget_residual(const Siblings& siblings, RandomSource& random,
                                std::span<double> owed) {
  for (int k = 0; k < std::ssize(siblings.trials); k++) {
    const Drafts::Trial& trial = siblings.trials[static_cast<std::size_t>(k)];
    const Proposal draft{siblings.position, siblings.token(trial), siblings.target_probs,
                         siblings.tree.probs(trial)};
    const double p = draft.target_prob(draft.token), q = draft.draft_prob(draft.token);
    if (random.accept(ratio(p, q), siblings.position, k)) return {trial.node, draft.token, k + 1};
    residual(draft, owed);
  }
  return {Drafts::kRoot, random.token(owed, siblings.position, Purpose::kResample)};
}

double off_by(SiblingRule rule, const MakeTreeShape& make, const Scenario& scenario) {
  return off(tree_law(scenario, make, {.name = "wrong", .summary = "", .rule = rule}), scenario);
}

TEST(TreeControlsTest, MergedDuplicatesAreOffByWhatWasWorkedOut) {
  const Scenario scenario = same_row(1, 1);
  EXPECT_NEAR(off_by(arranged<merge>, shape<Chains>(2, 1), scenario), 0.0102, 5e-5);
  EXPECT_NEAR(off_by(arranged<merge>, shape<Chains>(4, 1), scenario), 0.0295, 5e-5);
}

TEST(TreeControlsTest, EachMistakeIsSurelyOff) {
  const Scenario scenario = same_row(2, 2);
  const auto chains = shape<Chains>(2, 2), distinct = shape<DistinctDrafts>(std::vector{3, 1});
  EXPECT_GT(off_by(arranged<merge>, chains, scenario), kSurelyOff);
  for (const auto& make : {chains, distinct}) {
    EXPECT_GT(off_by(arranged<sort_by_token>, make, scenario), kSurelyOff);
    EXPECT_GT(off_by(arranged<sort_by_probability>, make, scenario), kSurelyOff);
    EXPECT_GT(off_by(forget_residual, make, scenario), kSurelyOff);
  }
  EXPECT_GT(off_by(arranged<forget_replacement>, distinct, scenario), kSurelyOff);
  EXPECT_LE(off_by(arranged<forget_replacement>, chains, scenario), kExact);
}

// Children that were chosen without chance may come in any order.
TEST(TreeControlsTest, CertainChildrenMayBeSorted) {
  const Scenario scenario = same_row(2, 2);
  const MakeTreeShape top = [] { return widths({3, 2}); };
  EXPECT_LE(off_by(arranged<sort_by_token>, top, scenario), kExact);
}

// ---- draws with names

// After token 0: q = (1/2, 1/2), p = (1/4, 3/4). After token 1 both are (3/4, 1/4).
ContextTable quarters(std::vector<double> after_0) {
  return ContextTable(2, [=](int row) {
    return row % 2 == 0 ? after_0 : std::vector<double>{0.75, 0.25};
  });
}

Scenario quarter_scenario(int levels, int new_tokens) {
  return {.name = "quarters",
          .target = quarters({0.25, 0.75}),
          .draft = quarters({0.5, 0.5}),
          .spec_length = levels,
          .new_tokens = new_tokens,
          .prompt = {0, 0}};
}

// Untested drafts of one round are drawn again by their numbers in the next: that must not be seen.
TEST(TreeNamedDrawsTest, TreesKeepTheLaw) {
  const Scenario scenario = quarter_scenario(2, 2);
  for (const auto& make : {shape<Chains>(2, 2), shape<DistinctDrafts>(std::vector{1, 2})}) {
    const Law law = tree_law_in_one_walk<QuarterDice>(scenario, make, kRejection);
    EXPECT_LT(largest_difference(law, target_law(scenario)), 1e-6);
  }
}

// WRONG: block verification of drafts whose draws are named as in other rounds.
class ForgetsTheLevels final : public SamplingTreeJudge {
 public:
  template <typename... Arguments>
  explicit ForgetsTheLevels(Arguments&&... arguments)
      : SamplingTreeJudge(std::forward<Arguments>(arguments)...) {
    drafting_.named_by_level = false;
  }
};

template <typename Random, typename TheJudge>
double block_off() {
  const Scenario scenario = quarter_scenario(2, 3);
  return largest_difference(tree_law_in_one_walk<Random, TheJudge>(scenario, shape<Chains>(1, 2),
                                                                   find_sibling_rule("block")),
                            target_law(scenario));
}

// A block's judge looks at drafts behind the one that it rejects. So what it rejects tells
// something about their draws, which must not come again; with the level in their names they do
// not.
TEST(TreeNamedDrawsTest, ABlockKeepsTheLawOnlyWhereLevelsAreNamed) {
  EXPECT_LT((block_off<QuarterDice, SamplingTreeJudge>()), 1e-6);
  EXPECT_GT((block_off<QuarterDice, ForgetsTheLevels>()), kSurelyOff);
  EXPECT_LT((block_off<EveryPath, ForgetsTheLevels>()), 1e-6) << "only where draws have names";
}

}  // namespace
}  // namespace specdec::law
