// Counts what trees do on the embedded pair, for docs/experiments/trees.py: the same on every
// machine, as no time is taken.
//
// usage: tree_counts shapes|rules NEW_TOKENS PROMPTS
// PROMPTS: a file with a line for each prompt, its kind and its ids. Texts go on past their end.
// Prints JSON. shapes: decodes greedily; how often the target goes on with each rank of the draft
// at each level, and the counts of each shape on each kind of text. rules: samples at temperature
// 1; the counts of each rule for siblings with each way to draft.
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>

#include <nlohmann/json.hpp>

#include "common/forwarding_model.h"
#include "stages/08_token_trees/best_shape.h"
#include "stages/08_token_trees/lookup_tree_drafter.h"
#include "stages/08_token_trees/tree_steps.h"
#include "stages/programs/trees/tree_profile.h"
#include "tests/engine_fixture.h"

namespace specdec {
namespace {

using nlohmann::json;

// Counts passes by the rows whose logits are wanted: tokens that a drafter only catches up with are
// left out.
class CountingModel final : public ForwardingModel {
 public:
  using ForwardingModel::forward;
  using ForwardingModel::ForwardingModel;
  void forward(std::span<const Segment> batch, DeviceRows logits) override {
    if (logits.rows > 0) passes[logits.rows]++;
    ForwardingModel::forward(batch, logits);
  }

  std::map<int, int> passes;
};

struct Counts {
  int emitted = 0, rounds = 0, accepted = 0, nodes = 0;
  std::map<int, int> target_passes, draft_passes;  // by rows
};

struct Prompt {
  std::string kind;
  std::vector<TokenId> ids;
};

std::vector<Prompt> read_prompts(const std::string& path) {
  std::ifstream file(path);
  SPECDEC_CHECK(file, "a readable file, not {}", path);
  std::vector<Prompt> prompts;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Prompt& prompt = prompts.emplace_back();
    words >> prompt.kind;
    for (TokenId id = 0; words >> id;) prompt.ids.push_back(id);
  }
  return prompts;
}

class Experiment {
 public:
  Experiment(int new_tokens, std::vector<Prompt> prompts)
      : new_tokens_(new_tokens), prompts_(std::move(prompts)) {}

  using AfterRound = std::function<void(const TreeRound&, const TokenTree&)>;

  // kind of text -> counts, here and below
  std::map<std::string, Counts> trees(const MakeTreeShape& shape, const AfterRound& after = {}) {
    return run(
        [&](LanguageModel& draft) {
          return std::make_unique<ModelTreeDrafter>(draft, shape, kLength, draft.vocab_size());
        },
        greedy(), after);
  }
  std::map<std::string, Counts> sampled(const MakeTreeShape& shape, const NamedSiblingRule& rule) {
    Dice dice(1);
    return run(
        [&](LanguageModel& draft) {
          return std::make_unique<ModelTreeDrafter>(draft, shape, kLength, draft.vocab_size());
        },
        [&](LanguageModel& target, const TreeDrafter& drafter) {
          return std::make_unique<SamplingTreeJudge>(
              target.backend(), dice, SamplingOptions{.temperature = 1}, 1, rule,
              drafter.room().verified + 1, target.vocab_size());
        },
        {});
  }
  std::map<std::string, Counts> lookup(int continuations, int levels) {
    return run(
        [&](LanguageModel&) {
          return std::make_unique<LookupTreeDrafter>(
              LookupTreeDrafter::Options{.continuations = continuations, .levels = levels});
        },
        greedy(), {});
  }

 private:
  static constexpr int kLength = 1024;

  using MakeDrafter = std::function<std::unique_ptr<TreeDrafter>(LanguageModel&)>;
  using MakeJudge = std::function<std::unique_ptr<TreeJudge>(LanguageModel&, const TreeDrafter&)>;

  static MakeJudge greedy() {
    return [](LanguageModel& target, const TreeDrafter&) {
      return std::make_unique<GreedyTreeJudge>(target.backend());
    };
  }

  std::map<std::string, Counts> run(const MakeDrafter& make, const MakeJudge& make_judge,
                                    const AfterRound& after) {
    std::map<std::string, Counts> result;
    for (const Prompt& prompt : prompts_) {
      CachedLlama target_cache(target_.model, 16, kLength), draft_cache(draft_.model, 16, kLength);
      CountingModel target(target_cache.llama), draft(draft_cache.llama);
      const auto drafter = make(draft);
      const auto judge = make_judge(target, *drafter);
      decode(prompt, target, *drafter, *judge, after, result[prompt.kind]);
      for (const auto& [rows, n] : target.passes) result[prompt.kind].target_passes[rows] += n;
      for (const auto& [rows, n] : draft.passes) result[prompt.kind].draft_passes[rows] += n;
    }
    return result;
  }

  void decode(const Prompt& prompt, LanguageModel& target, TreeDrafter& drafter, TreeJudge& judge,
              const AfterRound& after, Counts& counts) const {
    GenerationRequest request;
    request.prompt = prompt.ids;
    request.max_new_tokens = new_tokens_;
    Generation generation(request, nullptr);
    TreeSteps steps(target, drafter, drafter.room().levels, kLength / 2);
    std::vector<TokenId> context = prompt.ids;
    steps.prefill(context);
    while (!generation.finished()) {
      const TreeRound round = tree_round(steps, judge, context, generation);
      counts.emitted += round.emitted();
      counts.rounds++;
      counts.accepted += round.accepted;
      counts.nodes += steps.tree().size();
      if (after && round.end != RoundEnd::kStopped) after(round, steps.tree());
    }
  }

  int new_tokens_;
  std::vector<Prompt> prompts_;
  Engine target_{"target", make_cpu_backend(2), 16}, draft_{"draft", make_cpu_backend(2), 16};
};

json to_json(const std::map<std::string, Counts>& kinds) {
  json result;
  const auto by_rows = [](const auto& passes) {
    json list = json::array();
    for (const auto& [rows, n] : passes) list.push_back({rows, n});
    return list;
  };
  for (const auto& [kind, counts] : kinds) {
    result[kind] = {{"emitted", counts.emitted},
                    {"rounds", counts.rounds},
                    {"accepted", counts.accepted},
                    {"nodes", counts.nodes},
                    {"target_passes", by_rows(counts.target_passes)},
                    {"draft_passes", by_rows(counts.draft_passes)}};
  }
  return result;
}

MakeTreeShape planned(const Likeliest::Plan& plan) {
  return [=] { return std::make_unique<Likeliest>(plan); };
}

// How often the target went on with each rank at each level, of all rounds that got there.
AcceptanceByRank measure_ranks(Experiment& experiment, const std::vector<int>& widths) {
  TreeProfile profile;
  experiment.trees(
      planned(plan_of_widths(widths)),
      [&](const TreeRound& round, const TokenTree& tree) { profile.count(tree, round); });
  return profile.acceptance();
}

json shapes(Experiment& experiment) {
  const AcceptanceByRank ranks = measure_ranks(experiment, {8, 4, 4, 1});
  json result = {{"acceptance_by_rank", ranks}};
  const auto add = [&](const std::string& name, const MakeTreeShape& shape) {
    result["shapes"][name] = {{"kinds", to_json(experiment.trees(shape))}};
  };
  for (const int levels : {1, 2, 3, 4, 5, 6, 8, 10}) {
    add(fmt::format("chain of {}", levels),
        planned(plan_of_widths(std::vector(std::size_t(levels), 1))));
  }
  add("top:4", planned(plan_of_widths(std::vector{4})));
  add("top:3x2x1", planned(plan_of_widths(std::vector{3, 2, 1})));
  for (const int levels : {3, 5, 10}) {
    for (int nodes = 2 * levels; nodes <= 40; nodes *= 2) {
      const Likeliest::Plan plan = best_plan(ranks, nodes, levels);
      const std::string name = fmt::format("best:{} of {}", nodes, levels);
      add(name, planned(plan));
      result["shapes"][name]["expected_accepted"] = expected_accepted(plan, ranks);
      add(fmt::format("grow:{} of {}", nodes, levels),
          [=] { return std::make_unique<GrownTree>(nodes, 4, levels); });
    }
  }
  for (const int continuations : {1, 3}) {
    result["shapes"][fmt::format("lookup:{}", continuations)] = {
        {"kinds", to_json(experiment.lookup(continuations, 5))}};
  }
  return result;
}

json rules(Experiment& experiment) {
  const auto chains = [](int count) { return [=] { return std::make_unique<Chains>(count, 4); }; };
  const std::vector<int> widths = {3, 1, 1, 1};
  const std::vector<std::pair<std::string, MakeTreeShape>> ways = {
      {"one chain", chains(1)},
      {"three chains", chains(3)},
      {"three, distinct", [=] { return std::make_unique<DistinctDrafts>(widths); }},
      {"three, likeliest", planned(plan_of_widths(widths))}};
  json result;
  for (const auto& [name, shape] : ways) {
    for (const NamedSiblingRule& rule : sibling_rules()) {
      const bool chain = name == "one chain";
      if (rule.rule == nullptr ? !chain : rule.needs_same_draws && name != "three chains") continue;
      result[name][std::string(rule.name)] = {{"kinds", to_json(experiment.sampled(shape, rule))}};
    }
  }
  return result;
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  const std::string what = argc == 4 ? argv[1] : "";
  if (what != "shapes" && what != "rules") {
    std::cerr << "usage: tree_counts shapes|rules NEW_TOKENS PROMPTS\n";
    return 2;
  }
  specdec::Experiment experiment(std::stoi(argv[2]), specdec::read_prompts(argv[3]));
  const auto result = what == "shapes" ? specdec::shapes(experiment) : specdec::rules(experiment);
  std::cout << result.dump(1) << '\n';
}
