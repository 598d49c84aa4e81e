// What stage 7's code does, as facts: what policies learn from rounds, what a gate is asked and
// when, what n-grams remember, and the drafts of a draft that has a draft.
#include <cmath>

#include "stages/07_adaptive_drafting/adaptive_spec_length.h"
#include "stages/07_adaptive_drafting/confidence_spec_length.h"
#include "stages/07_adaptive_drafting/entropy_spec_length.h"
#include "stages/07_adaptive_drafting/ngram_drafter.h"
#include "stages/07_adaptive_drafting/schedule_spec_length.h"
#include "tests/course/probes/drafting_scenes.h"
#include "tests/course/probes/facts.h"
#include "tests/course/probes/finished_rounds.h"
#include "tests/course/probes/survival_scenes.h"

namespace specdec::course {
namespace {

using Numbers = std::vector<int>;

// ---- 7.1

// K c and v(K + 1), with c = 0.15 and v = 1, up to K = 8.
AdaptiveSpecLength adaptive() {
  return AdaptiveSpecLength({1, 1.15, 1.3, 1.45, 1.6, 1.75, 1.9, 2.05, 2.2});
}

void learns_what_was_tested(std::uint64_t seed) {
  struct Case {
    std::string name;
    std::vector<Round> rounds;
  };
  std::vector<Case> cases = {{"a rejection after 2 of 5 drafts", {rejected_after(2, 5)}},
                             {"a rejection of the first of 5 drafts", {rejected_after(0, 5)}},
                             {"3 of 3 drafts and the bonus", {all_accepted(3)}},
                             {"a stop after 2 of 5 drafts", {stopped_after(2, 5)}},
                             {"a stop before the first of 5 drafts", {stopped_after(0, 5)}},
                             {"a plain step", {plain_step()}},
                             {"100 plain steps", std::vector<Round>(100, plain_step())},
                             {"1000 plain steps", std::vector<Round>(1000, plain_step())}};
  Case random{"20 rounds of 4 drafts", {}};
  for (int i = 0; i < 20; i++) random.rounds.push_back(random_round(seed, i, 4, 0.7));
  cases.push_back(random);
  for (const Case& c : cases) {
    AdaptiveSpecLength policy = adaptive();
    for (const Round& round : c.rounds) policy.learn(round);
    fact(fmt::format("alpha after {}", c.name), exact({policy.alpha()}));
    policy.learn(rejected_after(0, 1));
    fact(fmt::format("alpha after one more rejection: {}", c.name), exact({policy.alpha()}));
  }
}

void chooses_K_by_what_it_learned(std::uint64_t seed) {
  const std::pair<const char*, double> texts[] = {
      {"no draft is accepted", 0}, {"half of the tests succeed", 0.5}, {"most tests succeed", 0.9}};
  for (const auto& [name, alpha] : texts) {
    AdaptiveSpecLength policy = adaptive();
    Numbers lengths;
    for (int i = 0; i < 120; i++) {
      lengths.push_back(policy.next());
      policy.learn(random_round(seed, i, policy.next(), alpha));
    }
    fact(fmt::format("K of 120 rounds, where {}", name), lengths);
  }
}

// ---- 7.2

void follows_the_rule_of_thumb(std::uint64_t seed) {
  struct Case {
    std::string name;
    std::vector<Round> rounds;
  };
  std::vector<Case> cases = {
      {"all drafts are accepted", std::vector<Round>(5, all_accepted(5))},
      {"the first draft is rejected", std::vector<Round>(8, rejected_after(0, 5))},
      {"the last draft is rejected", std::vector<Round>(3, rejected_after(4, 5))},
      {"plain steps", std::vector<Round>(3, plain_step())},
      {"a stop after 2 of 5 drafts", std::vector<Round>(3, stopped_after(2, 5))},
      {"a stop after 5 of 5 drafts", std::vector<Round>(3, stopped_after(5, 5))},
      {"a round that drafted 2 tokens, all accepted", {all_accepted(2)}}};
  for (const Case& c : cases) {
    ScheduleSpecLength policy(2, 5, 8);
    Numbers lengths = {policy.next()};
    for (const Round& round : c.rounds) {
      policy.learn(round);
      lengths.push_back(policy.next());
    }
    fact(fmt::format("K before and after each round: {}", c.name), lengths);
  }
  ScheduleSpecLength policy(1, 3, 10);
  Numbers lengths;
  for (int i = 0; i < 60; i++) {
    lengths.push_back(policy.next());
    policy.learn(random_round(seed, i, policy.next(), 0.8));
  }
  fact("K of 60 rounds of a text", lengths);
}

// ---- 7.3

void asks_before_the_draw(std::uint64_t seed) {
  constexpr int K = 4, kModel = 6, kTarget = 8;  // the model lacks two tokens of the target
  for (const WayToDraft& way : ways_to_draft()) {
    for (const int wanted : {0, 2, K}) {
      Rows rows(kModel, seed, seed, 1);
      TableModel model(kModel, rows.row_of());
      const auto drafter = gated_drafter(model);
      Witness random(seed);
      WatchedGate gate(wanted, random);
      const Tokens context = tokens_of(seed, 4, kModel);
      Drafts drafts(K, kTarget);
      const DraftRequest request{
          drafter->create(), context, K, {way.options, &random, way.race, &gate}, &drafts};
      drafter->draft(std::span(&request, 1));
      const std::string when = fmt::format("{}, the gate wants {} of {}", way.name, wanted, K);
      fact(fmt::format("drafts so far, at each question, {}", when), gate.numbers);
      fact(fmt::format("random numbers before each question, {}", when), gate.draws_before);
      draw_facts(random, when);
      fact(fmt::format("distributions that the gate is shown, {}", when),
           exact(gate.shown, kClose));
      draft_facts(drafts, when);
    }
  }
}

void drafts_without_a_gate(std::uint64_t seed) {
  constexpr int K = 4, V = 6;
  for (const WayToDraft& way : ways_to_draft()) {
    Rows rows(V, seed, seed, 1);
    TableModel model(V, rows.row_of());
    const auto drafter = gated_drafter(model);
    Witness random(seed);
    const Tokens context = tokens_of(seed, 4, V);
    Drafts drafts(K, V);
    const DraftRequest request{
        drafter->create(), context, K, {way.options, &random, way.race}, &drafts};
    drafter->draft(std::span(&request, 1));
    draft_facts(drafts, way.name);
    draw_facts(random, way.name);
  }
}

void keeps_the_law_with_a_gate(std::uint64_t seed) {
  const MakeDrafter make = [](ThreeModels& models) { return gated_drafter(models.draft); };
  for (const double threshold : {0.5, 0.7}) {
    law_facts(law_of_texts(seed, 3, make,
                           [=] { return std::make_unique<ConfidenceSpecLength>(threshold, 2); }),
              fmt::format("confidence {}", threshold));
  }
}

// ---- 7.4

// How many drafts the gate wants, where later places have other distributions.
int length_of(DraftGate& gate, std::span<const double> first, std::span<const double> others) {
  int drafted = 0;
  while (drafted < 20 && gate.goes_on(drafted == 0 ? first : others, drafted)) drafted++;
  return drafted;
}

void chooses_K_by_entropy(std::uint64_t seed) {
  const Probs certain = {0, 1, 0, 0, 0, 0}, equal(6, 1.0 / 6), half = {0.5, 0, 0.5, 0, 0, 0};
  std::vector<std::pair<std::string, Probs>> firsts = {
      {"a certain token", certain}, {"equal probabilities", equal}, {"two equal tokens", half}};
  for (int i = 0; i < 3; i++) {
    Probs weights = probs_of(seed, i, 6, i == 1);
    weights[std::size_t(i)] += i;
    firsts.emplace_back(fmt::format("distribution {}", i), normal(weights));
  }
  for (const auto& [name, first] : firsts) {
    for (const auto& [smallest, largest] : {std::pair(1, 8), std::pair(3, 6), std::pair(4, 4)}) {
      EntropySpecLength policy(smallest, largest);
      Numbers lengths;
      for (const Probs& others : {certain, equal}) {
        lengths.push_back(length_of(policy, first, others));
      }
      const std::string when = fmt::format("{}, K from {} to {}", name, smallest, largest);
      fact(fmt::format("drafts wanted, before certain places and before open ones: {}", when),
           lengths);
      fact(fmt::format("entropy noted: {}", when), exact({policy.notes()[0].value}));
    }
  }
}

void smooths_the_entropy(std::uint64_t seed) {
  for (const double smoothing : {0.25, 0.75}) {
    EntropySpecLength policy(1, 9, smoothing);
    Numbers lengths;
    Probs noted;
    for (int i = 0; i < 8; i++) {
      Probs weights = probs_of(seed, i, 5, i % 2 == 0);
      weights[0] += i % 3;
      const Probs first = normal(weights), later(5, 0.2);
      policy.goes_on(first, 0);  // asked again in the same round, it says the same
      const int length = length_of(policy, first, later);
      lengths.push_back(length);
      noted.push_back(policy.notes()[0].value);
      policy.learn(i == 3 ? plain_step() : rejected_after(0, length));
    }
    fact(fmt::format("drafts wanted in 8 rounds, smoothing {}", smoothing), lengths);
    fact(fmt::format("entropies noted in 8 rounds, smoothing {}", smoothing), exact(noted));
  }
}

void keeps_the_law_with_entropy(std::uint64_t seed) {
  const MakeDrafter make = [](ThreeModels& models) { return gated_drafter(models.draft); };
  for (const double smoothing : {0.0, 0.5}) {
    law_facts(law_of_texts(seed, 3, make,
                           [=] { return std::make_unique<EntropySpecLength>(1, 3, smoothing); }),
              fmt::format("smoothing {}", smoothing));
  }
}

// ---- 7.5

// The guesses after all runs of up to three tokens, of four; 9 stands for no guess, since a guess
// out of nothing is often 0.
Numbers guesses(const NgramCounts& counts) {
  Numbers result;
  for (int length = 1; length <= 3; length++) {
    for (int run = 0; run < 1 << (2 * length); run++) {
      Tokens text;
      for (int i = 0; i < length; i++) text.push_back(run >> (2 * i) & 3);
      const TokenId guess = counts.guess(text);
      result.push_back(guess < 0 ? 9 : guess);
    }
  }
  return result;
}

void forgets_what_is_rolled_back(std::uint64_t seed) {
  const Tokens text = tokens_of(seed, 40, 4), other = tokens_of(seed + 1, 20, 4);
  for (const int longest : {1, 3}) {
    for (const int length : {40, 37, 20, 1, 0}) {
      NgramCounts counts(longest);
      for (const TokenId token : text) counts.append(token);
      counts.truncate(length);
      const std::string when =
          fmt::format("runs of up to {}, 40 tokens cut to {}", longest, length);
      fact(fmt::format("text that is left: {}", when), to_tokens(counts.text()));
      fact(fmt::format("guesses: {}", when), guesses(counts));
      for (const TokenId token : other) counts.append(token);
      fact(fmt::format("guesses, 20 other tokens later: {}", when), guesses(counts));
    }
  }
}

// Growing and shrinking by turns, as the draft of a draft does. likely: the target's likely tokens
// that are learned with some of the tokens.
NgramCounts after_rounds(std::uint64_t seed, const Tokens& likely) {
  NgramCounts counts(3);
  int length = 0;
  for (int round = 0; round < 30; round++) {
    for (const TokenId token : tokens_of(seed + std::uint64_t(round), 4, 4)) {
      const std::size_t learned = std::min<std::size_t>(likely.size(), round % 3);
      counts.append(token, std::span(likely).first(learned));
      length++;
    }
    length -= static_cast<int>(4 * uniform(seed, round, Purpose::kAccept));
    counts.truncate(length);
  }
  return counts;
}

void forgets_round_after_round(std::uint64_t seed) {
  const NgramCounts counts = after_rounds(seed, {});
  fact("tokens that are left after 30 rounds", static_cast<int>(std::ssize(counts.text())));
  fact("guesses after 30 rounds", guesses(counts));
  const NgramCounts filled = after_rounds(seed, {2, 0});
  fact("guesses after 30 rounds, with up to two likely tokens for each", guesses(filled));
}

// ---- 7.6

void draws_with_an_inner_draft(std::uint64_t seed) {
  constexpr int K = 5, V = 6, kTarget = 8;
  for (const WayToDraft& way : ways_to_draft()) {
    if (way.options.temperature == 0) continue;
    for (const bool certain : {false, true}) {
      if (certain && way.race) continue;
      Rows rows(V, seed, seed, 1), below_rows(V, seed, seed + 1, 0.7);
      TableModel model(V, rows.row_of()), below(V, below_rows.row_of());
      const auto drafter =
          speculating(model, certain ? certain_drafter(V) : plain_drafter(below), 2, kTarget);
      Witness random(seed);
      const Tokens context = tokens_of(seed, 4, V);
      Drafts drafts(K, kTarget);
      const DraftRequest request{
          drafter->create(), context, K, {way.options, &random, way.race}, &drafts};
      drafter->draft(std::span(&request, 1));
      const std::string when =
          fmt::format("{}, an inner draft that is {}", way.name, certain ? "certain" : "drawn");
      const std::size_t inner = certain ? 0 : 2;  // draws of the inner drafts of the first round
      fact(fmt::format("draws that the level above makes, too, {}", when),
           way.race ? 0 : std::ranges::count(random.indices, 0));
      fact(fmt::format("purpose and position of the first decision, {}", when),
           random.asked.size() > inner ? Numbers{random.purposes[inner], random.asked[inner]}
                                       : Numbers{});
      fact(fmt::format("probabilities to accept, {}", when), exact(random.probabilities, kClose));
      draw_facts(random, when);
      draft_facts(drafts, when);
    }
  }
}

// The probabilities of what is drafted, whoever drafts below.
void drafts_with_the_models_law(std::uint64_t seed) {
  constexpr int K = 3, V = ThreeModels::V;
  for (const int k : {1, 2}) {
    for (const bool certain : {false, true}) {
      ThreeModels models(seed);
      const auto drafter = speculating(
          models.draft, certain ? certain_drafter(V) : plain_drafter(models.below), k, V);
      Probs law(V * V * V);
      EveryOutcome random;
      do {
        const SequenceId sequence = drafter->create();
        const Tokens context = {0, 1};
        Drafts drafts(K, V);
        const DraftRequest request{
            sequence, context, K, {.options = {.temperature = 0.9}, .random = &random}, &drafts};
        drafter->draft(std::span(&request, 1));
        std::size_t text = 0;
        for (const TokenId token : drafts.tokens()) text = text * V + std::size_t(token);
        if (drafts.size() == K && text < law.size()) law[text] += random.probability();
        drafter->release(sequence);
      } while (random.next());
      fact(fmt::format("probabilities of 3 drafted tokens, k = {}, an inner draft that is {}", k,
                       certain ? "certain" : "drawn"),
           exact(law, kClose));
    }
  }
}

// Also at the places where an inner draft is asked for.
void asks_about_the_models_q(std::uint64_t seed) {
  constexpr int K = 5, V = 6;
  Rows rows(V, seed, seed, 1), below_rows(V, seed, seed + 1, 0.7);
  TableModel model(V, rows.row_of()), below(V, below_rows.row_of());
  const auto drafter = speculating(model, gated_drafter(below), 2, V);
  const Tokens context = tokens_of(seed, 4, V);
  for (const int wanted : {0, 3}) {
    Witness random(seed);
    WatchedGate gate(wanted, random);
    Drafts drafts(K, V);
    const DraftRequest request{
        drafter->create(), context, K, {{.temperature = 0.9}, &random, false, &gate}, &drafts};
    drafter->draft(std::span(&request, 1));
    const std::string when = fmt::format("the gate wants {} of {}", wanted, K);
    fact(fmt::format("drafts so far, at each question, {}", when), gate.numbers);
    fact(fmt::format("distributions that the gate is shown, {}", when), exact(gate.shown, kClose));
    draft_facts(drafts, when);
  }
}

void keeps_the_law_with_two_levels(std::uint64_t seed) {
  const auto inner = [](ThreeModels& models) {
    return speculating(models.draft, plain_drafter(models.below), 1, ThreeModels::V);
  };
  law_facts(law_of_texts(seed, 3, inner, [] { return fixed_spec_length(2); }), "K = 2, k = 1");
}

}  // namespace
}  // namespace specdec::course

int main(int argc, char** argv) {
  using namespace specdec::course;
  return run_probes(argc, argv,
                    {{"learns_what_was_tested", learns_what_was_tested},
                     {"chooses_K_by_what_it_learned", chooses_K_by_what_it_learned},
                     {"follows_the_rule_of_thumb", follows_the_rule_of_thumb},
                     {"asks_before_the_draw", asks_before_the_draw},
                     {"drafts_without_a_gate", drafts_without_a_gate},
                     {"keeps_the_law_with_a_gate", keeps_the_law_with_a_gate},
                     {"chooses_K_by_entropy", chooses_K_by_entropy},
                     {"smooths_the_entropy", smooths_the_entropy},
                     {"keeps_the_law_with_entropy", keeps_the_law_with_entropy},
                     {"forgets_what_is_rolled_back", forgets_what_is_rolled_back},
                     {"forgets_round_after_round", forgets_round_after_round},
                     {"draws_with_an_inner_draft", draws_with_an_inner_draft},
                     {"drafts_with_the_models_law", drafts_with_the_models_law},
                     {"asks_about_the_models_q", asks_about_the_models_q},
                     {"keeps_the_law_with_two_levels", keeps_the_law_with_two_levels},
                     {"steps_by_newtons_method", steps_by_newtons_method},
                     {"drafts_by_survival", drafts_by_survival}});
}
