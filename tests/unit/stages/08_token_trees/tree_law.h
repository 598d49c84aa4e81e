#pragma once
#include <functional>
#include <memory>

#include "stages/08_token_trees/tree_drafter.h"
#include "stages/08_token_trees/tree_judge.h"
#include "stages/08_token_trees/tree_round.h"
#include "tests/tree_steps.h"
#include "tests/unit/stages/05_rejection_sampling/rejection_law.h"

// The law of the texts that rounds with trees emit, along every path of random choices: drafting,
// verification, the judge and the rollback, all with the code that programs run.
namespace specdec::law {

inline std::unique_ptr<TreeShape> widths(std::vector<int> widths) {
  return std::make_unique<Likeliest>(plan_of_widths(widths));
}

// Walks the rounds after a prompt along every path of random choices, each until the generation
// ends or `enough(generation)`. Calls after_walk(generation, rounds, probability) for each path.
template <typename Random, typename TheJudge, typename Enough, typename AfterWalk>
void walk_trees(const Scenario& scenario, const MakeTreeShape& make_shape,
                const NamedSiblingRule& rule, const Text& prompt, const GenerationRequest& request,
                Enough&& enough, AfterWalk&& after_walk) {
  TableModel target(scenario.target.vocab_size(), scenario.target.row_of(), scenario.context_limit);
  TableModel draft(scenario.draft.vocab_size(), scenario.draft.row_of(),
                   scenario.draft_context_limit);
  ModelTreeDrafter drafter(draft, make_shape, 64, target.vocab_size());
  Random random;
  TheJudge judge(target.backend(), random, scenario.options, rule, drafter.capacity(8).verified,
                 target.vocab_size());
  std::vector<Round> rounds;
  do {
    DraftAndVerify steps =
        tree_steps(target, drafter, scenario.spec_length, scenario.context_limit);
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

// A walk is one round, and starts after each text at which a round may end.
inline TreeLaw tree_law(const Scenario& scenario, const MakeTreeShape& make_shape,
                        const NamedSiblingRule& rule) {
  const auto n = static_cast<std::size_t>(scenario.new_tokens);
  std::vector<Law> texts(n + 1);  // by length: the texts at which a round may end
  TreeLaw result;
  texts[0][{}] = 1;
  GenerationRequest request = request_of(scenario.prompt, 0, scenario.eos_ids);
  for (std::size_t length = 0; length < n; length++) {
    request.max_new_tokens = static_cast<int>(n - length);
    for (const auto& entry : texts[length]) {
      const Text& text = entry.first;
      const double text_probability = entry.second;
      walk_trees<EveryPath, SamplingTreeJudge>(
          scenario, make_shape, rule, context_after(scenario, text), request,
          [](const Generation& generation) { return !generation.tokens().empty(); },
          [&](const Generation& generation, const std::vector<Round>& rounds, double probability) {
            Text longer = text;
            longer.insert(longer.end(), generation.tokens().begin(), generation.tokens().end());
            Law& where = generation.finished() ? result.law : texts[longer.size()];
            where[longer] += text_probability * probability;
            if (length == 0) result.accepted += probability * rounds[0].accepted;
          });
    }
  }
  return result;
}

// A walk contains all rounds of a text.
template <typename Random, typename TheJudge = SamplingTreeJudge>
Law tree_law_in_one_walk(const Scenario& scenario, const MakeTreeShape& make_shape,
                         const NamedSiblingRule& rule) {
  Law law;
  walk_trees<Random, TheJudge>(
      scenario, make_shape, rule, scenario.prompt,
      request_of(scenario.prompt, scenario.new_tokens, scenario.eos_ids),
      [](const Generation&) { return false; },
      [&](const Generation& generation, const std::vector<Round>&, double probability) {
        law[text_of(generation)] += probability;
      });
  return law;
}

}  // namespace specdec::law
