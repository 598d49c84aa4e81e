#pragma once
#include <algorithm>
#include <vector>

#include "common/base/stopwatch.h"
#include "stages/programs/show/report.h"

namespace specdec {

// The quantile place / n; of two middle values, the larger one. Reorders values. REQUIRES: a value.
inline double quantile(std::vector<double>& values, int place, int n) {
  const auto at = values.begin() + std::ssize(values) * place / n;
  std::ranges::nth_element(values, at);
  return *at;
}

inline double median(std::vector<double>& values) { return quantile(values, 1, 2); }

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
