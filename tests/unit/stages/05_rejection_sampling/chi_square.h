#pragma once
#include <cmath>
#include <map>

#include <gtest/gtest.h>

namespace specdec {

// Pearson's statistic, with the number that it exceeds by chance with probability 5e-7
// (Wilson-Hilferty, z = 4.9; below 1e-6 for all degrees of freedom that occur here).
struct ChiSquare {
  double statistic = 0;
  int degrees = 0;
  int impossible = 0;  // outcomes of probability 0

  double bound() const {
    const double spread = 2.0 / (9.0 * degrees);
    return degrees * std::pow(1 - spread + 4.9 * std::sqrt(spread), 3);
  }
  bool accepts() const { return statistic <= bound() && impossible == 0; }
  bool rejects() const { return statistic > bound(); }  // without the help of impossible outcomes
};

// Outcomes that are expected fewer than 10 times are pooled.
template <typename Outcome>
ChiSquare chi_square(const std::map<Outcome, int>& counts, const std::map<Outcome, double>& law) {
  ChiSquare result{0, -1, 0};
  double n = 0;
  for (const auto& [outcome, count] : counts) {
    n += count;
    if (!law.contains(outcome)) result.impossible += count;
  }
  double rare_expected = 0, rare_count = 0;
  const auto add = [&](double count, double expected) {
    result.statistic += (count - expected) * (count - expected) / expected;
    result.degrees++;
  };
  for (const auto& [outcome, probability] : law) {
    const auto found = counts.find(outcome);
    const double count = found == counts.end() ? 0 : found->second, expected = n * probability;
    if (expected >= 10) {
      add(count, expected);
    } else {
      rare_count += count;
      rare_expected += expected;
    }
  }
  if (rare_expected >= 10) add(rare_count, rare_expected);
  EXPECT_GE(result.degrees, 1);
  return result;
}

}  // namespace specdec
