#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "stages/08_token_trees/tree_drafter.h"
#include "stages/08_token_trees/tree_judge.h"
#include "stages/08_token_trees/tree_round.h"
#include "tests/tree_steps.h"
#include "tests/unit/stages/05_rejection_sampling/rejection_law.h"

// The law of the texts that rounds with trees emit, along every path of random choices: drafting,
// verification, the judge and the rollback, all with the code that programs run.
namespace specdec::law {

// Logits are float32: a row that is given as probabilities is off by so much.
inline constexpr double kRow = 1e-6;

inline const NamedSiblingRule& kRejection = find_sibling_rule("rejection");

template <typename Shape, typename... Args>
MakeTreeShape shape(Args... args) {
  return [=] { return std::make_unique<Shape>(args...); };
}

inline std::unique_ptr<TreeShape> widths(std::vector<int> widths) {
  return std::make_unique<Likeliest>(plan_of_widths(widths));
}

struct NamedShape {
  std::string name;
  MakeTreeShape make;
  bool same_draws = false;  // all drafts after a node are drawn from one distribution
};

inline NamedShape chains(int count, int levels) {
  return {fmt::format("chains:{} of {}", count, levels), shape<Chains>(count, levels), true};
}
inline NamedShape distinct(std::vector<int> widths) {
  return {fmt::format("distinct:{}", fmt::join(widths, "x")), shape<DistinctDrafts>(widths)};
}
inline NamedShape top(std::vector<int> of) {
  return {fmt::format("top:{}", fmt::join(of, "x")), [=] { return widths(of); }};
}
inline NamedShape grown(int verified, int width, int levels) {
  return {fmt::format("grow:{}", verified), shape<GrownTree>(verified, width, levels)};
}

// Block verification is for one chain, and races have too many paths.
inline bool goes_with(const NamedSiblingRule& rule, const NamedShape& shape) {
  if (rule.rule == nullptr) return shape.name.starts_with("chains:1 ");
  return !rule.races() && (shape.same_draws || !rule.needs_same_draws);
}

// What drafts trees of this shape with a model.
inline std::shared_ptr<Drafter> growing(LanguageModel& draft, const MakeTreeShape& make_shape) {
  return std::make_shared<ModelTreeDrafter>(draft, make_shape, 64, draft.vocab_size());
}

// What drafts a scenario's trees. draft: the model of its draft table.
using MakeTrees = std::function<std::shared_ptr<Drafter>(LanguageModel& draft)>;
inline MakeTrees of_draft(const MakeTreeShape& make_shape) {
  return [=](LanguageModel& draft) { return growing(draft, make_shape); };
}

// Walks the rounds after a prompt along every path of random choices, each until the generation
// ends or `enough(generation)`. Calls after_walk(generation, rounds, probability) for each path.
template <typename Random, typename TheJudge, typename Enough, typename AfterWalk>
void walk_trees(const Scenario& scenario, const MakeTrees& make_trees, const NamedSiblingRule& rule,
                const Text& prompt, const GenerationRequest& request, Enough&& enough,
                AfterWalk&& after_walk) {
  TableModel target(scenario.target.vocab_size(), scenario.target.row_of(), scenario.context_limit);
  TableModel draft(scenario.draft.vocab_size(), scenario.draft.row_of(),
                   scenario.draft_context_limit);
  const std::shared_ptr<Drafter> drafter = make_trees(draft);
  Random random;
  TheJudge judge(
      target.backend(), random, scenario.options, rule,
      std::make_shared<JudgingScratch>(drafter->capacity(8).verified, target.vocab_size()));
  std::vector<Round> rounds;
  do {
    DraftAndVerify steps =
        tree_steps(target, *drafter, scenario.spec_length, scenario.context_limit);
    Generation generation(request, nullptr);
    Text context = prompt;
    steps.prefill(context);
    rounds.clear();
    while (!generation.finished() && !enough(generation)) {
      rounds.push_back(tree_round(steps, judge, context, generation));
    }
    after_walk(generation, rounds, random.probability());
  } while (random.next());
}

// The law, and an average over all walks.
struct TreeLaw {
  Law law;
  double accepted = 0;  // tokens of the first round, on average
};

inline TreeLaw tree_law_of(const Scenario& scenario, const MakeTrees& make_trees,
                           const NamedSiblingRule& rule) {
  TreeLaw result;
  result.law = law_by_rounds(scenario, [&](const Text& context, const auto& request, auto after) {
    walk_trees<EveryPath, SamplingTreeJudge>(
        scenario, make_trees, rule, context, request, has_tokens,
        [&](const Generation& generation, const std::vector<Round>& rounds, double probability) {
          after(generation, rounds, probability);
          if (context == scenario.prompt) result.accepted += probability * rounds[0].accepted;
        });
  });
  return result;
}

inline TreeLaw tree_law(const Scenario& scenario, const MakeTreeShape& make_shape,
                        const NamedSiblingRule& rule) {
  return tree_law_of(scenario, of_draft(make_shape), rule);
}

// A walk contains all rounds of a text.
template <typename Random, typename TheJudge = SamplingTreeJudge>
Law tree_law_in_one_walk(const Scenario& scenario, const MakeTreeShape& make_shape,
                         const NamedSiblingRule& rule) {
  Law law;
  walk_trees<Random, TheJudge>(
      scenario, of_draft(make_shape), rule, scenario.prompt,
      request_of(scenario.prompt, scenario.new_tokens, scenario.eos_ids),
      [](const Generation&) { return false; },
      [&](const Generation& generation, const std::vector<Round>&, double probability) {
        law[text_of(generation)] += probability;
      });
  return law;
}

}  // namespace specdec::law
