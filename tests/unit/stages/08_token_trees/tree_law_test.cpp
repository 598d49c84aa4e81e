// Whatever tree is drafted and whatever rule judges it, the text has the law of the target alone.
#include "tests/unit/stages/08_token_trees/tree_law.h"

#include <fmt/ranges.h>

#include "tests/test_support.h"

namespace specdec::law {
namespace {

constexpr double kExact = 1e-12;

struct NamedShape {
  std::string name;
  MakeTreeShape make;
  bool same_draws = false;  // all drafts after a node are drawn from one distribution
};

template <typename Shape, typename... Args>
MakeTreeShape shape(Args... args) {
  return [=] { return std::make_unique<Shape>(args...); };
}

NamedShape chains(int count, int levels) {
  return {fmt::format("chains:{} of {}", count, levels), shape<Chains>(count, levels), true};
}
NamedShape distinct(std::vector<int> widths) {
  return {fmt::format("distinct:{}", fmt::join(widths, "x")), shape<DistinctDrafts>(widths)};
}
NamedShape top(std::vector<int> of) {
  return {fmt::format("top:{}", fmt::join(of, "x")), [=] { return widths(of); }};
}
NamedShape grown(int verified, int width, int levels) {
  return {fmt::format("grow:{}", verified), shape<GrownTree>(verified, width, levels)};
}

void expect_law(const Scenario& scenario, const NamedShape& shape, const NamedSiblingRule& rule) {
  const TreeLaw result = tree_law(scenario, shape.make, rule);
  const double difference = largest_difference(result.law, target_law(scenario));
  EXPECT_TRUE(difference <= kExact)
      << rule.name << ", " << shape.name << ", " << scenario.name << ": " << difference;
}

// Block verification is for one chain, and races have too many paths.
bool goes_with(const NamedSiblingRule& rule, const NamedShape& shape) {
  if (rule.rule == nullptr) return shape.name.starts_with("chains:1 ");
  return !rule.races() && (shape.same_draws || !rule.needs_same_draws);
}

void expect_laws(const Size& size, const std::vector<NamedShape>& shapes, unsigned seed) {
  for (const NamedShape& shape : shapes) {
    for (const NamedSiblingRule& rule : sibling_rules()) {
      if (!goes_with(rule, shape)) continue;
      for (const Scenario& scenario : scenarios(size, seed)) expect_law(scenario, shape, rule);
    }
  }
}

TEST(TreeLawTest, IsTheTargetsForTwoTokens) {
  expect_laws({2, 3, 3},
              {chains(1, 3), chains(2, 2), chains(3, 2), distinct({2, 1, 1}), distinct({1, 2, 1}),
               top({2, 2}), top({2, 1, 1}), grown(4, 2, 3)},
              71);
}

TEST(TreeLawTest, IsTheTargetsForThreeTokens) {
  expect_laws({3, 3, 2},
              {chains(1, 3), chains(2, 2), chains(3, 1), distinct({3, 1}), distinct({2, 2}),
               top({3, 2, 1}), top({2, 3}), grown(5, 3, 2)},
              72);
}

TEST(TreeLawTest, IsTheTargetsForFourTokens) {
  expect_laws({4, 3, 2}, {chains(1, 2), chains(2, 1), chains(3, 1), distinct({3}), top({4, 3, 2})},
              73);
}

// Temperatures that differ, filters, penalties whose history is the path; and at temperature 0 of
// the draft, where drafts are ranked by its distribution at 1.
TEST(TreeLawTest, IsTheTargetsWhateverTheOptions) {
  const Size size{3, 2, 2};
  for (const auto& [name, sampling, draft_temperature] : option_sets()) {
    for (const NamedShape& shape :
         {chains(1, 2), chains(2, 2), distinct({2, 1}), top({2, 2}), grown(3, 2, 2)}) {
      for (const NamedSiblingRule& rule : sibling_rules()) {
        if (!goes_with(rule, shape)) continue;
        for (Scenario& scenario : scenarios(size, 74)) {
          scenario.options.sampling = sampling;
          scenario.options.draft_temperature = draft_temperature;
          scenario.name += ", " + name;
          expect_law(scenario, shape, rule);
        }
      }
    }
  }
}

// An eos and the last allowed token, in the middle of a path; a context that ends within a tree.
TEST(TreeLawTest, IsTheTargetsWhereATextEnds) {
  for (const NamedShape& shape : {chains(1, 3), chains(2, 2), distinct({2, 1}), top({2, 2, 1})}) {
    for (const NamedSiblingRule& rule : sibling_rules()) {
      if (!goes_with(rule, shape)) continue;
      Scenario scenario = scenarios({3, 3, 3}, 75)[0];
      scenario.eos_ids = {2};
      expect_law(scenario, shape, rule);
      scenario.context_limit = 5;  // two tokens of the prompt, three new ones
      expect_law(scenario, shape, rule);
    }
  }
}

TEST(TreeLawTest, LargeGrid) {
  if (!full()) GTEST_SKIP() << "NOT CHECKED: needs minutes; set SPECDEC_FULL=1 (make test-full)";
  expect_laws({2, 3, 2}, {chains(3, 3), distinct({2, 2, 2}), top({2, 2, 2})}, 76);
  expect_laws({3, 3, 2}, {chains(2, 3), distinct({2, 2, 1}), top({3, 3, 3}), grown(9, 3, 3)}, 77);
  expect_laws({4, 3, 1}, {chains(1, 3), chains(3, 2), distinct({3, 2}), top({4, 4, 4})}, 78);
}

}  // namespace
}  // namespace specdec::law
