// Rules that change the law: that the proof sees it, and what they promise instead. And what rounds
// count.
#include "tests/test_support.h"
#include "tests/unit/stages/05_rejection_sampling/rejection_law.h"

namespace specdec::law {
namespace {

// ---- rules that change the law ----

Scenario visible_scenario(unsigned seed) {
  const Rows any = random_rows(4, 0);
  return scenario("no zeros", {4, 2, 2}, seed, any, any, seed + 1);
}

TEST(LossyLawTest, ResidualSkippedIsAnotherLaw) {
  for (unsigned seed = 1; seed <= 5; seed++) {
    Scenario scenario = visible_scenario(seed);
    scenario.options.rule = &find_acceptance_rule("residual-skipped");
    EXPECT_GE(largest_difference(speculation_law(scenario), target_law(scenario)), kSurelyOff);
  }
}

TEST(LossyLawTest, LenientIsAnotherLawWithinItsBound) {
  for (const double lenience : {0.9, 0.5, 0.1}) {
    Scenario scenario = visible_scenario(7);
    scenario.options.lenience = lenience;
    const Law law = speculation_law(scenario);
    EXPECT_GE(largest_difference(law, target_law(scenario)), kSurelyOff);
    expect_bound_of_lenience(law, scenario);
  }
}

// At temperature 0, whatever the draft proposes: nothing less likely than l times the likeliest,
// and really something else than the likeliest.
TEST(LossyLawTest, LenientArgmaxStaysNearTheLikeliest) {
  for (const double lenience : {0.9, 0.5, 0.1}) {
    Scenario scenario = visible_scenario(8);
    scenario.options.sampling = {.temperature = 0, .repetition_penalty = 1.2};
    scenario.options.lenience = lenience;
    Scenario warm = scenario;
    warm.options.sampling.temperature = 1;
    double greedy = 0;
    for (const auto& [text, probability] : speculation_law(scenario)) {
      bool is_greedy = true;
      for (std::size_t n = 0; n < text.size(); n++) {
        const Text before(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n));
        const std::vector<double> probs = target_probs_after(warm, before);
        const double best = std::ranges::max(probs), p = probs[static_cast<std::size_t>(text[n])];
        EXPECT_TRUE(p >= lenience * best * (1 - kExact)) << lenience;
        is_greedy = is_greedy && p == best;
      }
      if (is_greedy) greedy += probability;
    }
    EXPECT_EQ(greedy < 1 - kSurelyOff, lenience <= 0.5) << lenience << ": " << greedy;
  }
}

// ---- counts ----

// Each test of a draft accepts with probability sum min(p, q), so over all paths the accepted
// drafts are as many as the acceptance probabilities that the rounds report.
TEST(RejectionCounts, AsManyAreAcceptedAsTheProbabilitiesSay) {
  for (const double draft_temperature : {0.0, 1.0}) {
    for (Scenario& scenario : scenarios({3, 2, 3}, 91)) {
      scenario.options.draft_temperature = draft_temperature;
      scenario.eos_ids = {2};
      double accepted = 0, acceptance_prob = 0;
      walk(
          scenario, scenario.prompt, request_of(scenario.prompt, 3, {2}),
          [](const Generation&) { return false; },
          [&](const Generation& generation, const std::vector<Round>& rounds, double probability) {
            int emitted = 0;
            for (const Round& round : rounds) {
              accepted += probability * round.accepted;
              acceptance_prob += probability * round.sum_acceptance_prob;
              emitted += round.emitted();
              EXPECT_LE(round.accepted, round.counted());
            }
            EXPECT_EQ(emitted, std::ssize(generation.tokens()));
          });
      EXPECT_TRUE(std::abs(accepted - acceptance_prob) <= kExact)
          << scenario.name << ": " << accepted << " " << acceptance_prob;
    }
  }
}

// Why a run ended, on every path; a token that is both eos and the last allowed one is a stop.
TEST(RejectionCounts, EveryPathEndsForItsReason) {
  for (Scenario& scenario : scenarios({3, 2, 3}, 95)) {
    bool last_is_eos = false;
    walk(
        scenario, scenario.prompt, request_of(scenario.prompt, 3, {0, 2}),
        [](const Generation&) { return false; },
        [&](const Generation& generation, const std::vector<Round>&, double) {
          const bool stop = generation.tokens().back() != 1;
          EXPECT_EQ(generation.finish_reason(), stop ? FinishReason::kStop : FinishReason::kLength);
          last_is_eos = last_is_eos || (stop && generation.tokens().size() == 3);
        });
    EXPECT_TRUE(last_is_eos || !scenario.name.starts_with("no zeros"));
  }
}

}  // namespace
}  // namespace specdec::law
