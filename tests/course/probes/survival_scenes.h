#pragma once
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "stages/07_adaptive_drafting/survival_spec_length.h"
#include "tests/course/probes/drafting_scenes.h"
#include "tests/course/probes/facts.h"
#include "tests/course/probes/finished_rounds.h"

// The fit of survival, and the rounds of a policy that goes by it, for the probe of stage 7.
namespace specdec::course {

inline Probs a_and_b(const OnlineLogistic& fit) {
  return {fit.logit(0), fit.logit(1) - fit.logit(0)};
}

inline void steps_by_newtons_method(std::uint64_t seed) {
  const auto u = [&](int i) { return uniform(seed, i, Purpose::kTarget); };
  for (const bool accepted : {true, false}) {
    for (const double offset : {0.0, 1.5}) {
      OnlineLogistic fit({.a = 0.2, .b = 0.7, .ridge_a = 1, .ridge_b = 16});
      fit.learn(1 + 3 * u(0), accepted, offset);
      fact(fmt::format("a and b after a first example, {}, {}", accepted ? "accepted" : "rejected",
                       offset > 0 ? "with an offset" : "alone"),
           floats(a_and_b(fit)));
    }
  }
  OnlineLogistic fit({.a = 0, .b = 0.7, .ridge_a = 1, .ridge_b = 16});
  for (int i = 1; i <= 300; i++) {
    const double margin = 5 * u(2 * i);
    fit.learn(margin, u(2 * i + 1) < 1 / (1 + std::exp(1 - margin)));
    if (i % 100 == 0) fact(fmt::format("a and b after many examples: {}", i), floats(a_and_b(fit)));
  }
}

// The margin of every place is a random one, and so is whether its draft is accepted.
inline void drafts_by_survival(std::uint64_t seed) {
  const auto u = [&](int i, int place) { return uniform(seed, i, Purpose::kTarget, place); };
  std::vector<double> costs;
  for (int K = 0; K <= 6; K++) costs.push_back(1 + 0.15 * K);
  SurvivalSpecLength policy(std::make_shared<SurvivalModel>(6), costs, 0.1);
  std::vector<int> lengths;
  for (int i = 0; i < 60; i++) {
    const auto first_of_two = [&](int place) { return 0.5 + 0.5 * u(i, place); };
    int drafted = 0, accepted = 0;
    for (; drafted < 6; drafted++) {
      const double p = first_of_two(drafted);
      if (!policy.goes_on(Probs{p, 1 - p}, drafted)) break;
    }
    while (accepted < drafted && u(i, 10 + accepted) < first_of_two(accepted)) accepted++;
    policy.learn(accepted < drafted ? rejected_after(accepted, drafted) : all_accepted(drafted));
    lengths.push_back(drafted);
  }
  fact("drafts of 60 rounds", lengths);
}

}  // namespace specdec::course
