#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "stages/05_rejection_sampling/rejection_sampling.h"
#include "stages/07_adaptive_drafting/adaptive_round.h"
#include "stages/07_adaptive_drafting/gated_sampler.h"
#include "stages/07_adaptive_drafting/speculating_drafter.h"
#include "stages/programs/sampling/speculation_options.h"
#include "tests/course/probes/sampling_scenes.h"
#include "tests/scripted_drafter.h"

// Gates, drafters and laws for the probe of stage 7.
namespace specdec::course {

// Wants `wanted` drafts. It writes down what it is asked about, and when.
class WatchedGate final : public DraftGate {
 public:
  WatchedGate(int wanted, const Witness& random) : wanted_(wanted), random_(random) {}

  bool goes_on(std::span<const double> draft_probs, int drafted) override {
    shown.insert(shown.end(), draft_probs.begin(), draft_probs.end());
    numbers.push_back(drafted);
    draws_before.push_back(static_cast<int>(std::ssize(random_.asked)));
    return drafted < wanted_;
  }

  Probs shown;                             // the distributions, one after the other
  std::vector<int> numbers, draws_before;  // the drafts so far; the random numbers so far

 private:
  int wanted_;
  const Witness& random_;
};

inline std::shared_ptr<Drafter> gated_drafter(LanguageModel& model) {
  auto sampler = std::make_unique<GatedSampler>(model.backend(), model.vocab_size());
  return std::make_shared<ModelDrafter>(model, std::move(sampler), 64);
}

inline std::shared_ptr<Drafter> plain_drafter(LanguageModel& model) {
  return std::make_shared<SamplingDrafter>(model, 64);
}

inline std::shared_ptr<Drafter> speculating(LanguageModel& model, std::shared_ptr<Drafter> inner,
                                            int k, int vocab_size) {
  return std::make_shared<SpeculatingDrafter>(model, std::move(inner), k, 64, vocab_size);
}

// Drafts nothing but the token after the last one, and is certain of it.
inline std::shared_ptr<Drafter> certain_drafter(int V) {
  return std::make_shared<ScriptedDrafter>([V](std::span<const TokenId> context, int i) {
    return static_cast<TokenId>((context.back() + i + 1) % V);
  });
}

struct WayToDraft {
  std::string name;
  SamplingOptions options;
  bool race = false;
};

inline std::vector<WayToDraft> ways_to_draft() {
  return {{"temperature 1", {.temperature = 1}},
          {"temperature 0.7 with top-k 3 and a penalty",
           {.temperature = 0.7, .top_k = 3, .repetition_penalty = 1.5}},
          {"temperature 1, by races", {.temperature = 1}, true},
          {"temperature 0", {.temperature = 0}},
          {"temperature 0 with a penalty", {.temperature = 0, .repetition_penalty = 2.5}}};
}

// What is drafted, and which distribution each token carries.
inline void draft_facts(const Drafts& drafts, const std::string& when) {
  Probs kept;
  std::vector<int> sizes;  // 0: certain
  for (int i = 0; i < drafts.size(); i++) {
    const std::span<const double> probs = drafts.probs(i);
    kept.insert(kept.end(), probs.begin(), probs.end());
    sizes.push_back(static_cast<int>(std::ssize(probs)));
  }
  fact(fmt::format("tokens drafted, {}", when), to_tokens(drafts.tokens()));
  fact(fmt::format("probabilities kept for each, 0 for a certain token, {}", when), sizes);
  fact(fmt::format("distributions kept, {}", when), exact(kept, kClose));
}

inline void draw_facts(const Witness& random, const std::string& when) {
  fact(fmt::format("purposes of the draws, {}", when), random.purposes);
  fact(fmt::format("positions of the draws, {}", when), random.asked);
}

// Two models and one below the draft, of three tokens. The two drafts resemble the target.
struct ThreeModels {
  static constexpr int V = 3;

  explicit ThreeModels(std::uint64_t seed)
      : rows{{V, seed, seed, 1}, {V, seed, seed + 1, 0.6}, {V, seed, seed + 2, 0.5}},
        target(V, rows[0].row_of()),
        draft(V, rows[1].row_of()),
        below(V, rows[2].row_of()) {}

  Rows rows[3];
  TableModel target, draft, below;
};

using MakeDrafter = std::function<std::shared_ptr<Drafter>(ThreeModels&)>;
using MakePolicy = std::function<std::unique_ptr<SpecLengthPolicy>()>;

struct LawOfTexts {
  Probs law;  // of all texts, in the order of their ids; an unknown one counts nowhere
  double drafted = 0, accepted = 0;  // tokens of a text, on average
};

// Every path through drafting, gates, tests and corrections, at temperature 0.9.
inline LawOfTexts law_of_texts(std::uint64_t seed, int new_tokens, const MakeDrafter& make_drafter,
                               const MakePolicy& make_policy) {
  ThreeModels models(seed);
  const auto drafter = make_drafter(models);
  const GenerationRequest request{.prompt = {0, 1}, .max_new_tokens = new_tokens};
  std::size_t n_texts = 1;
  for (int i = 0; i < new_tokens; i++) n_texts *= ThreeModels::V;
  LawOfTexts result{.law = Probs(n_texts)};
  EveryOutcome random;
  do {
    auto policy = make_policy();
    const int largest = policy->largest();
    DraftAndVerify steps(models.target, *drafter, std::move(policy), kNoLimit,
                         Drafts(largest, ThreeModels::V));
    const auto judge =
        make_judge(steps, random, {.sampling = {.temperature = 0.9}, .draft_temperature = 0.9});
    Generation generation(request, nullptr);
    Tokens context = request.prompt;
    steps.prefill(context);
    int drafted = 0, accepted = 0;
    for (int i = 0; i < new_tokens && !generation.finished(); i++) {
      const Round round = adaptive_round(steps, *judge, context, generation);
      drafted += round.drafted;
      accepted += round.accepted;
    }
    std::size_t text = 0;
    for (const TokenId token : generation.tokens()) {
      text = text * std::size_t(ThreeModels::V) + std::size_t(token);
    }
    if (generation.finished() && text < n_texts) result.law[text] += random.probability();
    result.drafted += drafted * random.probability();
    result.accepted += accepted * random.probability();
  } while (random.next());
  return result;
}

inline void law_facts(const LawOfTexts& found, const std::string& when) {
  fact(fmt::format("probabilities of all texts, {}", when), exact(found.law, kClose));
  fact(fmt::format("tokens drafted for a text on average, {}", when),
       exact(Probs{found.drafted}, kClose));
  fact(fmt::format("tokens accepted in a text on average, {}", when),
       exact(Probs{found.accepted}, kClose));
}

}  // namespace specdec::course
