#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/base/stopwatch.h"

namespace specdec {

// The p-quantile, 0 <= p <= 1: the smallest value that is at least as large as a share p of all
// values. NaN without values.
inline double quantile(std::vector<double> values, double p) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double rank = std::ceil(p * static_cast<double>(values.size()));
  const auto at = values.begin() + std::max(0, static_cast<int>(rank) - 1);
  std::ranges::nth_element(values, at);
  return *at;
}

inline double median(const std::vector<double>& values) { return quantile(values, 0.5); }

template <typename Work>
double seconds_of(const Work& work) {
  double seconds = 0;
  {
    const Stopwatch watch(seconds);
    work();
  }
  return seconds;
}

}  // namespace specdec
