#pragma once
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <set>
#include <string>

#include "stages/05_rejection_sampling/sampling_drafter.h"
#include "stages/programs/sampling/speculation_options.h"
#include "tests/every_path.h"
#include "tests/policy.h"
#include "tests/table_model.h"

// Two laws (distributions of texts) that must be equal: that of stage 5's code, walked along every
// path of random choices, and that of the target alone, computed from its logits only.
namespace specdec::law {

// Of probabilities that must be equal; of a law that is another one.
inline constexpr double kExact = 1e-12, kSurelyOff = 1e-3;
inline constexpr int kNoLimit = 1 << 20;

struct Size {
  int V, K, new_tokens;
};

// A pair of models, a prompt and the options of a request.
struct Scenario {
  std::string name;
  ContextTable target, draft;
  int spec_length, new_tokens;
  SpeculationOptions options{.sampling = {.temperature = 1}, .draft_temperature = 1};
  Text prompt = {0, 1};
  Text eos_ids = {};
  int context_limit = kNoLimit, draft_context_limit = kNoLimit;
  std::vector<double> round_costs = {};  // K adapts to these; empty: K is always spec_length
  std::function<std::shared_ptr<Drafter>(LanguageModel& model)> make_drafter =
      [](LanguageModel& model) { return std::make_shared<SamplingDrafter>(model, 64); };
};

inline Text context_after(const Scenario& scenario, const Text& text) {
  Text context = scenario.prompt;
  context.insert(context.end(), text.begin(), text.end());
  return context;
}

// ---- the law of speculation ----

// Walks the rounds after a context along every path of random choices, each until the generation
// ends or `enough(generation)`. Calls after_walk(generation, rounds, probability) for each path.
template <typename Enough, typename AfterWalk>
inline void walk(const Scenario& scenario, const Text& prompt, const GenerationRequest& request,
                 Enough&& enough, AfterWalk&& after_walk) {
  TableModel target(scenario.target.vocab_size(), scenario.target.row_of(), scenario.context_limit);
  TableModel draft(scenario.draft.vocab_size(), scenario.draft.row_of(),
                   scenario.draft_context_limit);
  const std::shared_ptr<Drafter> drafter = scenario.make_drafter(draft);
  EveryPath random;
  std::vector<Round> rounds;
  do {
    DraftAndVerify steps(target, *drafter, policy_of(scenario.spec_length, scenario.round_costs),
                         scenario.context_limit, Drafts(scenario.spec_length, target.vocab_size()));
    const auto judge = make_judge(steps, random, scenario.options);
    Generation generation(request, nullptr);
    Text context = prompt;
    steps.prefill(context);
    rounds.clear();
    while (!generation.finished() && !(enough(generation))) {
      rounds.push_back(sampled_round(steps, *judge, context, generation));
    }
    after_walk(generation, rounds, random.probability());
  } while (random.next());
}

inline Text text_of(const Generation& generation) {
  return {generation.tokens().begin(), generation.tokens().end()};
}

// The law of speculation. A walk contains all rounds of a text.
inline Law speculation_law(const Scenario& scenario) {
  Law law;
  walk(
      scenario, scenario.prompt, request_of(scenario.prompt, scenario.new_tokens, scenario.eos_ids),
      [](const Generation&) { return false; },
      [&](const Generation& generation, const std::vector<Round>&, double probability) {
        law[text_of(generation)] += probability;
      });
  return law;
}

// The same, for scenarios in which whole texts have too many paths. A walk is one round, and starts
// after each text at which a round may end. walk_round(context, request, after_walk): as walk(),
// for one round.
template <typename WalkRound>
Law law_by_rounds(const Scenario& scenario, WalkRound&& walk_round) {
  const auto n = static_cast<std::size_t>(scenario.new_tokens);
  std::vector<Law> texts(n + 1);  // by length: the texts at which a round may end
  Law law;
  texts[0][{}] = 1;
  GenerationRequest request = request_of(scenario.prompt, 0, scenario.eos_ids);
  for (std::size_t length = 0; length < n; length++) {
    request.max_new_tokens = static_cast<int>(n - length);
    for (const auto& entry : texts[length]) {
      const Text& text = entry.first;
      const double text_probability = entry.second;
      walk_round(context_after(scenario, text), request,
                 [&](const Generation& generation, const std::vector<Round>&, double probability) {
                   Text longer = text;
                   longer.insert(longer.end(), generation.tokens().begin(),
                                 generation.tokens().end());
                   Law& where = generation.finished() ? law : texts[longer.size()];
                   where[longer] += text_probability * probability;
                 });
    }
  }
  return law;
}

inline Text tokens_of(const Drafts& drafts) {
  return {drafts.tokens().begin(), drafts.tokens().end()};
}

inline bool has_tokens(const Generation& generation) { return !generation.tokens().empty(); }

inline Law speculation_law_by_rounds(const Scenario& scenario) {
  return law_by_rounds(scenario, [&](const Text& context, const auto& request, auto after_walk) {
    walk(scenario, context, request, has_tokens, after_walk);
  });
}

// ---- the law of the target alone ----

// Standardised sampling (Leviathan et al., section 2.2), written straight from its description.
inline std::vector<double> standardised(std::span<const float> logits, const Text& history,
                                        const SamplingOptions& options) {
  std::vector<double> scores(logits.begin(), logits.end()), probs(logits.size());
  for (const TokenId token : std::set<TokenId>(history.begin(), history.end())) {
    double& score = scores[static_cast<std::size_t>(token)];
    const double penalty = options.repetition_penalty;
    score = static_cast<float>(score < 0 ? score * penalty : score / penalty);
  }
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, [&](auto a, auto b) { return scores[a] > scores[b]; });
  const auto normalise = [&] {
    const double total = std::accumulate(probs.begin(), probs.end(), 0.0);
    for (double& prob : probs) prob /= total;
  };
  if (options.temperature == 0) {
    probs[order[0]] = 1;
    return probs;
  }
  const std::size_t k = options.top_k > 0 ? static_cast<std::size_t>(options.top_k) : order.size();
  for (std::size_t i = 0; i < order.size(); i++) {
    const bool kept = i < k || scores[order[i]] == scores[order[k - 1]];
    probs[order[i]] = kept ? std::exp(scores[order[i]] / options.temperature) : 0;
  }
  normalise();
  double before = 0;
  for (const std::size_t i : order) {
    before += probs[i];
    if (options.top_p < 1 && before - probs[i] >= options.top_p) probs[i] = 0;
  }
  normalise();
  return probs;
}

inline std::vector<double> target_probs_after(const Scenario& scenario, const Text& text) {
  const Text context = context_after(scenario, text);
  return standardised(scenario.target.row(context), context, scenario.options.sampling);
}

inline bool ends(const Scenario& scenario, const Text& text) {
  return std::ssize(text) == scenario.new_tokens ||
         (!text.empty() && std::ranges::count(scenario.eos_ids, text.back()) > 0);
}

inline void add_target_law(const Scenario& scenario, const Text& text, double probability,
                           Law& law) {
  if (ends(scenario, text)) {
    law[text] = probability;
    return;
  }
  const std::vector<double> probs = target_probs_after(scenario, text);
  for (TokenId token = 0; token < std::ssize(probs); token++) {
    const double prob = probs[static_cast<std::size_t>(token)];
    if (prob == 0) continue;
    Text longer = text;
    longer.push_back(token);
    add_target_law(scenario, longer, probability * prob, law);
  }
}

inline Law target_law(const Scenario& scenario) {
  Law law;
  add_target_law(scenario, {}, 1, law);
  return law;
}

// ---- scenarios ----

using Rows = std::function<std::vector<double>(int row, std::mt19937& random)>;

inline ContextTable table(int V, unsigned seed, const Rows& rows) {
  std::mt19937 random(seed);
  return ContextTable(V, [&](int row) {
    std::vector<double> weights = rows(row, random);
    for (double& weight : weights) weight *= 4;  // logits of both signs, for the penalty
    return weights;
  });
}

inline Scenario scenario(const std::string& name, const Size& size, unsigned seed,
                         const Rows& target, const Rows& draft, unsigned draft_seed) {
  return {fmt::format("{} V {} K {} n {} seed {}", name, size.V, size.K, size.new_tokens, seed),
          table(size.V, seed, target), table(size.V, draft_seed, draft), size.K, size.new_tokens};
}

inline Rows random_rows(int V, double zeros) {
  return [=](int, std::mt19937& random) { return random_weights(V, zeros, random); };
}

inline Rows one_hot_rows(int V) {
  return [=](int, std::mt19937& random) {
    std::vector<double> weights(static_cast<std::size_t>(V));
    weights[random() % weights.size()] = 1;
    return weights;
  };
}

// Even tokens for one model, odd ones for the other.
inline Rows half_rows(int V, int half) {
  return [=](int row, std::mt19937& random) {
    std::vector<double> weights = random_weights(V, 0, random);
    for (int i = 0; i < V; i++) {
      if ((i + row) % 2 == half) weights[static_cast<std::size_t>(i)] = 0;
    }
    return weights;
  };
}

// One scenario for each relation that the target's rows and the draft's rows can have.
inline std::vector<Scenario> scenarios(const Size& size, unsigned seed) {
  const Rows any = random_rows(size.V, 0), zeros = random_rows(size.V, 0.35);
  const Rows one_hot = one_hot_rows(size.V);
  return {scenario("no zeros", size, seed, any, any, seed + 1),
          scenario("zeros", size, seed, zeros, zeros, seed + 1),
          scenario("zeros in p", size, seed, zeros, any, seed + 1),
          scenario("zeros in q", size, seed, any, zeros, seed + 1),
          scenario("disjoint", size, seed, half_rows(size.V, 0), half_rows(size.V, 1), seed + 1),
          scenario("equal", size, seed, zeros, zeros, seed),
          scenario("one-hot p", size, seed, one_hot, any, seed + 1),
          scenario("one-hot q", size, seed, any, one_hot, seed + 1)};
}

struct NamedOptions {
  std::string name;
  SamplingOptions sampling;
  double draft_temperature;
};

inline std::vector<NamedOptions> option_sets() {
  return {{"cold", {.temperature = 0.6}, 0.6},
          {"hotter draft", {.temperature = 0.7}, 1.6},
          {"colder draft", {.temperature = 1.3}, 0.5},
          {"greedy draft", {.temperature = 1}, 0},
          {"greedy draft, penalty", {.temperature = 1, .repetition_penalty = 1.7}, 0},
          {"greedy target", {.temperature = 0, .repetition_penalty = 1.5}, 1},
          {"top-k", {.temperature = 1, .top_k = 2}, 1},
          {"top-k 1", {.temperature = 1, .top_k = 1}, 1},
          {"top-p", {.temperature = 1, .top_p = 0.6}, 1},
          {"penalty", {.temperature = 1, .repetition_penalty = 1.8}, 1},
          {"reward", {.temperature = 1, .repetition_penalty = 0.6}, 1},
          {"all", {.temperature = 0.8, .top_k = 3, .top_p = 0.8, .repetition_penalty = 1.4}, 1.2}};
}

// The scenarios with each set of options.
inline std::vector<Scenario> scenarios_with_options(const Size& size, unsigned seed) {
  std::vector<Scenario> all;
  for (const auto& [name, sampling, draft_temperature] : option_sets()) {
    for (Scenario& scenario : scenarios(size, seed)) {
      scenario.name += ", " + name;
      scenario.options.sampling = sampling;
      scenario.options.draft_temperature = draft_temperature;
      all.push_back(std::move(scenario));
    }
  }
  return all;
}

// Appendix A.5's bound, for each token after each text: its probability is at most p/l.
inline void expect_bound_of_lenience(const Law& law, const Scenario& scenario) {
  Law beginnings;
  for (const auto& [text, probability] : law) {
    for (std::size_t n = 0; n <= text.size(); n++) {
      beginnings[Text(text.begin(), text.begin() + std::ptrdiff_t(n))] += probability;
    }
  }
  for (const auto& [text, probability] : beginnings) {
    if (text.empty()) continue;
    const Text before(text.begin(), text.end() - 1);
    const double p = target_probs_after(scenario, before)[std::size_t(text.back())];
    EXPECT_LE(probability / beginnings[before], p / scenario.options.lenience + 1e-12)
        << scenario.options.lenience;
  }
}

inline bool full() {
  const char* value = std::getenv("SPECDEC_FULL");
  return value && std::string_view(value) == "1";
}

}  // namespace specdec::law
