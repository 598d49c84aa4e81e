// Stage 7's ways to draft, for trees: whichever policy chooses the levels, the text has the law of
// the target alone. With a lenience it has another one, within its bound.
#include "tests/unit/stages/08_token_trees/tree_policies_law.h"

#include "stages/08_token_trees/lookup_tree_drafter.h"
#include "tests/test_support.h"
#include "tests/unit/stages/07_adaptive_drafting/named_drafters.h"

namespace specdec::law {
namespace {

struct NamedTrees {
  std::string name;
  MakeDrafter make;
  bool one_chain = false;
  bool same_draws = false;  // all drafts after a node are drawn from one distribution
};

template <typename Shape, typename... Args>
NamedTrees trees(const std::string& name, Args... args) {
  const bool chains = std::is_same_v<Shape, Chains>;
  return {name,
          [=](LanguageModel& draft, LanguageModel&) {
            return growing(draft, [=] { return std::make_unique<Shape>(args...); });
          },
          name == "one chain", chains};
}

std::vector<NamedTrees> all_trees(int levels) {
  const auto fallback = [=](LanguageModel& draft, LanguageModel&) -> std::shared_ptr<Drafter> {
    return std::make_shared<FallbackDrafter>(
        std::make_shared<LookupTreeDrafter>(
            LookupTreeDrafter::Options{.continuations = 2, .levels = levels, .min_match = 1}),
        growing(draft, [=] { return std::make_unique<Chains>(2, levels); }));
  };
  return {trees<Chains>("one chain", 1, levels),
          trees<Chains>("two chains", 2, levels),
          trees<DistinctDrafts>("distinct", std::vector<int>{2, 1}),
          trees<Likeliest>("likeliest", plan_of_widths(std::vector<int>{2, 2})),
          trees<GrownTree>("grown", 3, 2, levels),
          {"lookup, then two chains", fallback},
          {"draft of draft",
           [](LanguageModel& draft, LanguageModel& below) {
             return speculating(draft, plain_drafter(below), 1);
           },
           true}};
}

bool goes_with(const NamedSiblingRule& rule, const NamedTrees& drafts) {
  if (rule.rule == nullptr) return drafts.one_chain;
  return !rule.races() && (drafts.same_draws || drafts.one_chain || !rule.needs_same_draws);
}

TEST(TreePoliciesLawTest, IsTheTargetsForEveryPolicy) {
  const Size size{2, 2, 3};
  int drafting = 0;
  for (const NamedTrees& drafts : all_trees(size.K)) {
    for (const NamedSiblingRule& rule : sibling_rules()) {
      if (!goes_with(rule, drafts)) continue;
      for (const NamedPolicy& policy : policies(size.K)) {
        for (const Scenario& scenario : scenarios(size, 81)) {
          const DraftingLaw result = policy_law(scenario, table(size.V, 83, random_rows(size.V, 0)),
                                                drafts.make, policy.make, rule);
          const double difference = largest_difference(result.law, target_law(scenario));
          EXPECT_TRUE(difference <= kExact)
              << drafts.name << ", " << rule.name << ", " << policy.name << ", " << scenario.name
              << ": " << difference;
          drafting += result.accepted > 0;
        }
      }
    }
  }
  EXPECT_GT(drafting, 500) << "most of these accept something";
}

// ---- what a fallback keeps

// Requests that are drafted for one after the other and kept later, as an engine does where
// drafting for all of them failed: each keeps the path in the tree of its own drafter alone.
TEST(FallbackTreesTest, EachRequestKeepsItsOwnPath) {
  constexpr int V = 8;
  const ContextTable likely = table(V, 5, random_rows(V, 0));
  TableModel model(V, likely.row_of());
  FallbackDrafter drafter(std::make_shared<LookupTreeDrafter>(LookupTreeDrafter::Options{}),
                          growing(model, [] {
                            return widths({2, 2, 2});
                          }));
  const Text contexts[] = {{0, 1, 2}, {5, 6, 7}};  // nothing to copy in either
  std::vector<Drafts> trees;
  std::vector<SequenceId> sequences;
  for (const Text& context : contexts) {
    trees.emplace_back(drafter.capacity(3), V);
    sequences.push_back(drafter.create());
    const DraftRequest request{.sequence = sequences.back(),
                               .context = context,
                               .spec_length = 3,
                               .sampling = {},
                               .drafts = &trees.back()};
    drafter.draft(std::span(&request, 1));
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const std::vector<int> path = {1, trees[i].trials(1).back().node};  // never the first nodes
    drafter.keep(sequences[i], static_cast<int>(contexts[i].size()) + 2, path);
    Text want = contexts[i];
    for (const int node : path) want.push_back(trees[i].token(node));
    EXPECT_EQ(model.text(sequences[i]), want) << "request " << i;
  }
}

// ---- lenience

Scenario lenient(double lenience, const SamplingOptions& sampling) {
  const Rows any = random_rows(3, 0);
  Scenario scenario = law::scenario("no zeros", {3, 2, 2}, 7, any, any, 8);
  scenario.options.sampling = sampling;
  scenario.options.draft_temperature = 1;
  scenario.options.lenience = lenience;
  return scenario;
}

Law lenient_law(const Scenario& scenario, const MakeTreeShape& shape) {
  return tree_law_in_one_walk<EveryPath>(scenario, shape, find_sibling_rule("rejection"));
}

TEST(TreeLenienceTest, OneChainHasStageFivesLaw) {
  for (const SamplingOptions& sampling :
       {SamplingOptions{.temperature = 1}, SamplingOptions{.temperature = 0}}) {
    for (const double lenience : {0.9, 0.5, 0.1}) {
      const Scenario scenario = lenient(lenience, sampling);
      const Law law = lenient_law(scenario, [] { return std::make_unique<Chains>(1, 2); });
      EXPECT_LT(largest_difference(law, speculation_law(scenario)), kExact) << lenience;
      EXPECT_EQ(largest_difference(law, target_law(scenario)) > kSurelyOff,
                lenience < 0.9 || sampling.temperature > 0)
          << lenience;
    }
  }
}

// No token after any text is more likely than p/l, however many siblings it is among.
TEST(TreeLenienceTest, KeepsItsBound) {
  const MakeTreeShape shapes[] = {shape<Chains>(2, 2), shape<DistinctDrafts>(std::vector{2, 1}),
                                  [] {
                                    return widths({2, 2});
                                  }};
  for (const double lenience : {0.9, 0.5, 0.1}) {
    const Scenario scenario = lenient(lenience, {.temperature = 1});
    for (const MakeTreeShape& shape : shapes) {
      const Law law = lenient_law(scenario, shape);
      EXPECT_GT(largest_difference(law, target_law(scenario)), kSurelyOff);
      expect_bound_of_lenience(law, scenario);
    }
  }
}

}  // namespace
}  // namespace specdec::law
