// Whatever tree is drafted and whatever rule judges it, the text has the law of the target alone.
#include "tests/unit/stages/08_token_trees/tree_law.h"

#include "tests/test_support.h"

namespace specdec::law {
namespace {

void expect_law(const Scenario& scenario, const NamedShape& shape, const NamedSiblingRule& rule) {
  const TreeLaw result = tree_law(scenario, shape.make, rule);
  const double difference = largest_difference(result.law, target_law(scenario));
  EXPECT_TRUE(difference <= kExact)
      << rule.name << ", " << shape.name << ", " << scenario.name << ": " << difference;
}

void expect_laws(const std::vector<Scenario>& scenarios, const std::vector<NamedShape>& shapes) {
  for (const NamedShape& shape : shapes) {
    for (const NamedSiblingRule& rule : sibling_rules()) {
      if (!goes_with(rule, shape)) continue;
      for (const Scenario& scenario : scenarios) expect_law(scenario, shape, rule);
    }
  }
}

TEST(TreeLawTest, IsTheTargetsForTwoTokens) {
  expect_laws(scenarios({2, 3, 3}, 71),
              {chains(1, 3), chains(2, 2), chains(3, 2), distinct({2, 1, 1}), distinct({1, 2, 1}),
               top({2, 2}), top({2, 1, 1}), grown(4, 2, 3)});
}

TEST(TreeLawTest, IsTheTargetsForThreeTokens) {
  expect_laws(scenarios({3, 3, 2}, 72),
              {chains(1, 3), chains(2, 2), chains(3, 1), distinct({3, 1}), distinct({2, 2}),
               top({3, 2, 1}), top({2, 3}), grown(5, 3, 2)});
}

TEST(TreeLawTest, IsTheTargetsForFourTokens) {
  expect_laws(scenarios({4, 3, 2}, 73),
              {chains(1, 2), chains(2, 1), chains(3, 1), distinct({3}), top({4, 3, 2})});
}

// Temperatures that differ, filters, penalties whose history is the path; and at temperature 0 of
// the draft, where drafts are ranked by its distribution at 1.
TEST(TreeLawTest, IsTheTargetsWhateverTheOptions) {
  expect_laws(scenarios_with_options({3, 2, 2}, 74),
              {chains(1, 2), chains(2, 2), distinct({2, 1}), top({2, 2}), grown(3, 2, 2)});
}

// An eos and the last allowed token, in the middle of a path; a context that ends within a tree.
TEST(TreeLawTest, IsTheTargetsWhereATextEnds) {
  Scenario by_eos = scenarios({3, 3, 3}, 75)[0], by_context = by_eos;
  by_eos.eos_ids = by_context.eos_ids = {2};
  by_context.context_limit = 5;  // two tokens of the prompt, three new ones
  expect_laws({by_eos, by_context}, {chains(1, 3), chains(2, 2), distinct({2, 1}), top({2, 2, 1})});
}

TEST(TreeLawTest, LargeGrid) {
  if (!full()) GTEST_SKIP() << "NOT CHECKED: needs minutes; set SPECDEC_FULL=1 (make test-full)";
  expect_laws(scenarios({2, 3, 2}, 76), {chains(3, 3), distinct({2, 2, 2}), top({2, 2, 2})});
  expect_laws(scenarios({3, 3, 2}, 77),
              {chains(2, 3), distinct({2, 2, 1}), top({3, 3, 3}), grown(9, 3, 3)});
  expect_laws(scenarios({4, 3, 1}, 78),
              {chains(1, 3), chains(3, 2), distinct({3, 2}), top({4, 4, 4})});
}

}  // namespace
}  // namespace specdec::law
