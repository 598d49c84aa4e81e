// Several draft models in one tree: trial k is drawn from q_k, and the text has the law of the
// target alone. What they accept together was worked out by hand.
#include "stages/08_token_trees/side_by_side_drafter.h"
#include "tests/test_support.h"
#include "tests/unit/stages/08_token_trees/tree_law.h"

namespace specdec::law {
namespace {

// A draft model, and the number of its chains.
struct Beside {
  ContextTable table;
  int chains = 1;
};

// Draft models on tables, side by side, in this order. The scenario's own draft is not used.
MakeTrees of_tables(const std::vector<Beside>& models, int levels) {
  struct Owned {
    std::vector<Beside> models;
    std::vector<std::unique_ptr<TableModel>> tables;
    std::unique_ptr<SideBySideDrafter> drafter;
  };
  return [=](LanguageModel& draft) -> std::shared_ptr<Drafter> {
    const auto owned = std::make_shared<Owned>();
    owned->models = models;
    std::vector<std::shared_ptr<Drafter>> drafters;
    for (const Beside& model : owned->models) {
      owned->tables.push_back(
          std::make_unique<TableModel>(draft.vocab_size(), model.table.row_of()));
      drafters.push_back(growing(*owned->tables.back(), shape<Chains>(model.chains, levels)));
    }
    owned->drafter =
        std::make_unique<SideBySideDrafter>(std::move(drafters), levels, draft.vocab_size());
    return {owned, owned->drafter.get()};
  };
}

double off(const Scenario& scenario, const MakeTrees& trees, const NamedSiblingRule& rule) {
  return largest_difference(tree_law_of(scenario, trees, rule).law, target_law(scenario));
}

// Expects the target's law for these numbers of chains, with the models in both orders.
void expect_laws(const std::vector<Scenario>& scenarios, const std::vector<Scenario>& others,
                 const std::vector<int>& chains) {
  for (const NamedSiblingRule& rule : sibling_rules()) {
    if (rule.rule == nullptr || rule.needs_same_draws || rule.races()) continue;
    for (std::size_t i = 0; i < scenarios.size(); i++) {
      const ContextTable* tables[] = {&scenarios[i].draft, &others[i].draft,
                                      &others[(i + 1) % others.size()].draft};
      std::vector<Beside> models;
      for (std::size_t k = 0; k < chains.size(); k++) models.push_back({*tables[k], chains[k]});
      for (int order = 0; order < 2; order++) {
        const double difference =
            off(scenarios[i], of_tables(models, scenarios[i].spec_length), rule);
        EXPECT_LE(difference, kExact) << rule.name << ", " << scenarios[i].name;
        std::ranges::reverse(models);
      }
    }
  }
}

TEST(SideBySideLawTest, IsTheTargetsInBothOrders) {
  expect_laws(scenarios({2, 2, 3}, 91), scenarios({2, 2, 3}, 92), {1, 1});
  expect_laws(scenarios({2, 2, 2}, 93), scenarios({2, 2, 2}, 94), {2, 1});
  expect_laws(scenarios({3, 2, 2}, 95), scenarios({3, 2, 2}, 96), {1, 1});
  expect_laws(scenarios({4, 1, 1}, 97), scenarios({4, 1, 1}, 98), {1, 1, 1});
}

TEST(SideBySideLawTest, IsTheTargetsWhateverTheOptions) {
  expect_laws(scenarios_with_options({3, 2, 2}, 99), scenarios_with_options({3, 2, 2}, 100),
              {1, 1});
}

// ---- what is accepted

ContextTable always(const std::vector<double>& row) {
  return {static_cast<int>(row.size()), [=](int) { return row; }};
}
// Stage 0's rows after "the", and those of a second draft model.
const ContextTable kFirst = always({.25, .45, .20, .10}), kSecond = always({.10, .20, .10, .60});

Scenario after_the(int levels) {
  return {.name = "after \"the\"",
          .target = always({.05, .70, .05, .20}),
          .draft = kFirst,
          .spec_length = levels,
          .new_tokens = levels};
}

TEST(SideBySideTest, AcceptsWhatWasWorkedOut) {
  const auto accepted = [](const std::vector<Beside>& models) {
    return tree_law_of(after_the(1), of_tables(models, 1), kRejection).accepted;
  };
  EXPECT_NEAR(accepted({{kFirst}, {kSecond}}), 0.820, kRow);
  EXPECT_NEAR(accepted({{kSecond}, {kFirst}}), 0.725, kRow);
  EXPECT_NEAR(accepted({{kFirst}, {kFirst}}), 0.8425, kRow) << "the first model twice";
  EXPECT_NEAR(accepted({{kSecond}, {kSecond}}), 0.600, kRow) << "the second model twice";
}

// WRONG: every trial is judged by the distribution of the first one.
SiblingDecision by_the_first(const Siblings& siblings, RandomSource& random,
                             std::span<double> owed) {
  std::vector<Drafts::Trial> trials(siblings.trials.begin(), siblings.trials.end());
  for (Drafts::Trial& trial : trials) trial.probs = trials.front().probs;
  return rejection_chain({siblings.position, siblings.tree, trials, siblings.target_probs}, random,
                         owed);
}

TEST(SideBySideTest, JudgedByTheFirstModelAloneTheTextIsAnother) {
  const NamedSiblingRule wrong{.name = "wrong", .summary = "", .rule = by_the_first};
  EXPECT_NEAR(off(after_the(1), of_tables({{kFirst}, {kSecond}}, 1), wrong), 0.1389, 1e-4);
  EXPECT_GT(off(after_the(2), of_tables({{kFirst}, {kSecond}}, 2), wrong), kSurelyOff);
  EXPECT_LE(off(after_the(2), of_tables({{kFirst}, {kFirst}}, 2), wrong), kExact);
}

}  // namespace
}  // namespace specdec::law
