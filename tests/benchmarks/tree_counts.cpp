// Counts what trees do on the embedded pair, for docs/experiments/trees.py: the same on every
// machine, as no time is taken.
//
// usage: tree_counts shapes|rules NEW_TOKENS PROMPTS
// PROMPTS: a file with a JSON list of prompts, with "kind" and "prompt_ids". Texts go on past their
// end.
// Prints JSON, with an entry for each setting and kind of text. shapes: decodes greedily; how often
// the target goes on with each rank of the draft at each level, and the counts of each shape.
// rules: samples at temperature 1; the counts of each rule for siblings with each way to draft.
#include <fstream>
#include <functional>
#include <iostream>
#include <map>

#include <nlohmann/json.hpp>

#include "common/forwarding_model.h"
#include "stages/08_token_trees/best_shape.h"
#include "stages/08_token_trees/lookup_tree_drafter.h"
#include "stages/08_token_trees/tree_drafter.h"
#include "stages/08_token_trees/tree_judge.h"
#include "stages/08_token_trees/tree_round.h"
#include "stages/programs/trees/tree_profile.h"
#include "tests/engine_fixture.h"
#include "tests/tree_steps.h"

namespace specdec {
namespace {

using nlohmann::json;

constexpr int kLength = 1024;  // of a text, at most

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

// --- what is run ---

using MakeDrafter = std::function<std::unique_ptr<Drafter>(LanguageModel& draft)>;

constexpr int kMostLevels = 32;

MakeDrafter by_model(const MakeTreeShape& shape) {
  return [=](LanguageModel& draft) {
    return std::make_unique<ModelTreeDrafter>(draft, shape, kLength, draft.vocab_size());
  };
}
MakeDrafter by_plan(const Likeliest::Plan& plan) {
  return by_model([=] { return std::make_unique<Likeliest>(plan); });
}
MakeDrafter by_lookup(int continuations, int levels) {
  return [=](LanguageModel&) {
    return std::make_unique<LookupTreeDrafter>(
        LookupTreeDrafter::Options{.continuations = continuations, .levels = levels});
  };
}

// What happened on a kind of text.
struct Counts {
  std::map<std::string, int> of;
  std::map<int, int> target_passes, draft_passes;  // by rows

  json to_json() const {
    json result = of;
    result["target_passes"] = target_passes;
    result["draft_passes"] = draft_passes;
    return result;
  }
};

class Experiment {
 public:
  Experiment(int new_tokens, json prompts)
      : new_tokens_(new_tokens), prompts_(std::move(prompts)) {}

  using AfterRound = std::function<void(const Round&, const Drafts&)>;

  // Adds entries for a setting. rule: by which it samples; null: it decodes greedily.
  void run(const json& setting, json& entries, const MakeDrafter& make,
           const NamedSiblingRule* rule = nullptr, const AfterRound& after = {}) {
    std::map<std::string, Counts> kinds;
    Dice dice(1);
    for (const json& prompt : prompts_) {
      CachedLlama target_cache(target_.model, 16, kLength), draft_cache(draft_.model, 16, kLength);
      CountingModel target(target_cache.llama), draft(draft_cache.llama);
      const std::unique_ptr<Drafter> drafter = make(draft);
      std::unique_ptr<RoundJudge> judge = std::make_unique<GreedyTreeJudge>(target.backend());
      if (rule != nullptr) {
        judge = std::make_unique<SamplingTreeJudge>(
            target.backend(), dice,
            SpeculationOptions{.sampling = {.temperature = 1}, .draft_temperature = 1}, *rule,
            drafter->capacity(kMostLevels).verified, target.vocab_size());
      }
      Counts& counts = kinds[prompt.at("kind")];
      decode(prompt, target, *drafter, *judge, after, counts);
      for (const auto& [rows, n] : target.passes) counts.target_passes[rows] += n;
      for (const auto& [rows, n] : draft.passes) counts.draft_passes[rows] += n;
    }
    for (const auto& [kind, counts] : kinds) {
      entries.push_back(setting);
      entries.back()["text"] = kind;
      entries.back().update(counts.to_json());
    }
  }

 private:
  void decode(const json& prompt, LanguageModel& target, Drafter& drafter, RoundJudge& judge,
              const AfterRound& after, Counts& counts) const {
    GenerationRequest request;
    request.prompt = prompt.at("prompt_ids").get<std::vector<TokenId>>();
    request.max_new_tokens = new_tokens_;
    Generation generation(request, nullptr);
    DraftAndVerify steps = tree_steps(target, drafter, kMostLevels, kLength / 2);
    std::vector<TokenId> context = request.prompt;
    steps.prefill(context);
    while (!generation.finished()) {
      const Round round = tree_round(steps, judge, context, generation);
      counts.of["emitted"] += round.emitted();
      counts.of["rounds"]++;
      counts.of["accepted"] += round.accepted;
      counts.of["nodes"] += steps.drafts().size();
      if (after && round.end != RoundEnd::kStopped) after(round, steps.drafts());
    }
  }

  int new_tokens_;
  json prompts_;
  Engine target_{"target", make_cpu_backend(2), 16}, draft_{"draft", make_cpu_backend(2), 16};
};

// --- the two experiments ---

// How often the target went on with each rank at each level, of all rounds that got there.
AcceptanceByRank measure_ranks(Experiment& experiment, const std::vector<int>& widths) {
  TreeProfile profile;
  json entries;
  experiment.run({}, entries, by_plan(plan_of_widths(widths)), nullptr,
                 [&](const Round& round, const Drafts& tree) { profile.count(tree, round); });
  return profile.acceptance();
}

json shapes(Experiment& experiment) {
  const AcceptanceByRank ranks = measure_ranks(experiment, {8, 4, 4, 1});
  json result = {{"acceptance_by_rank", ranks}};
  const auto add = [&](const std::string& name, const MakeDrafter& make) {
    experiment.run({{"shape", name}}, result["entries"], make);
  };
  for (const int levels : {1, 2, 3, 4, 5, 6, 8, 10}) {
    add(fmt::format("chain of {}", levels),
        by_plan(plan_of_widths(std::vector(std::size_t(levels), 1))));
  }
  add("top:4", by_plan(plan_of_widths(std::vector{4})));
  add("top:3x2x1", by_plan(plan_of_widths(std::vector{3, 2, 1})));
  for (const int levels : {3, 5, 10}) {
    for (int nodes = 2 * levels; nodes <= 40; nodes *= 2) {
      const Likeliest::Plan plan = best_plan(ranks, nodes, levels);
      const std::string best = fmt::format("best:{} of {}", nodes, levels);
      add(best, by_plan(plan));
      result["expected_accepted"][best] = expected_accepted(plan, ranks);
      add(fmt::format("grow:{} of {}", nodes, levels),
          by_model([=] { return std::make_unique<GrownTree>(nodes, 4, levels); }));
    }
  }
  for (const int continuations : {1, 3}) {
    add(fmt::format("lookup:{}", continuations), by_lookup(continuations, 5));
  }
  return result;
}

json rules(Experiment& experiment) {
  const auto chains = [](int count) {
    return by_model([=] { return std::make_unique<Chains>(count, 4); });
  };
  const std::vector<int> widths = {3, 1, 1, 1};
  const std::vector<std::pair<std::string, MakeDrafter>> ways = {
      {"one chain", chains(1)},
      {"three chains", chains(3)},
      {"three, distinct", by_model([=] { return std::make_unique<DistinctDrafts>(widths); })},
      {"three, likeliest", by_plan(plan_of_widths(widths))}};
  json result;
  for (const auto& [name, make] : ways) {
    for (const NamedSiblingRule& rule : sibling_rules()) {
      const bool chain = name == "one chain";
      if (rule.rule == nullptr ? !chain : rule.needs_same_draws && name != "three chains") continue;
      experiment.run({{"way", name}, {"rule", rule.name}}, result["entries"], make, &rule);
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
  std::ifstream file(argv[3]);
  specdec::Experiment experiment(std::stoi(argv[2]), nlohmann::json::parse(file));
  const auto result = what == "shapes" ? specdec::shapes(experiment) : specdec::rules(experiment);
  std::cout << result.dump(1) << '\n';
}
