#include "stages/07_adaptive_drafting/row_budget.h"

#include <algorithm>

#include "common/base/check.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

// Values that became one.
struct Pool {
  double mean = 0;
  int size = 0;
};

// The seconds per row from a to b.
double slope(const CostCurve::Point& a, const CostCurve::Point& b) {
  return (b.seconds - a.seconds) / (b.rows - a.rows);
}

}  // namespace

// Pools adjacent violators (Ayer et al., 1955): a value below the pool before it joins that pool,
// whose mean may then lie below that of the one before.
std::vector<double> isotonic(std::span<const double> values) {
  std::vector<Pool> pools;
  for (const double value : values) {
    Pool last = {value, 1};
    for (; !pools.empty() && pools.back().mean > last.mean; pools.pop_back()) {
      const Pool& before = pools.back();
      const int size = before.size + last.size;
      last = {(before.mean * before.size + last.mean * last.size) / size, size};
    }
    pools.push_back(last);
  }
  std::vector<double> result;
  result.reserve(values.size());
  for (const Pool& pool : pools) result.insert(result.end(), pool.size, pool.mean);
  return result;
}

// More rows never take less time: where a measurement says so, it is noise.
CostCurve::CostCurve(std::vector<Point> measured) {
  SPECDEC_CHECK(!measured.empty() && measured[0].rows == 1, "points from 1 row on");
  std::vector<double> seconds;
  for (const Point& point : measured) seconds.push_back(point.seconds);
  seconds = isotonic(seconds);
  for (std::size_t i = 0; i < measured.size(); i++) {
    SPECDEC_CHECK(i == 0 || measured[i - 1].rows < measured[i].rows, "points in ascending order");
    measured[i].seconds = seconds[i];
  }
  for (const Point& point : measured) {
    while (hull_.size() > 1 && slope(hull_.back(), point) <= slope(hull_.end()[-2], hull_.back())) {
      hull_.pop_back();
    }
    hull_.push_back(point);
  }
  SPECDEC_CHECK(hull_[0].seconds > 0, "a pass to take time");
}

double CostCurve::seconds(double rows) const {
  if (hull_.size() == 1) return hull_[0].seconds;
  const auto after = std::ranges::find_if(hull_.begin() + 1, hull_.end() - 1,
                                          [&](const Point& point) { return rows <= point.rows; });
  const Point& before = after[-1];
  return before.seconds + (rows - before.rows) * slope(before, *after);
}

namespace {

// The request whose next place has the largest survival, the first one among equals; none: -1.
int best_place(std::span<const std::span<const double>> survival, std::span<const int> given) {
  int best = -1;
  double largest = 0;
  for (int r = 0; r < int_size(survival); r++) {
    if (given[r] == int_size(survival[r])) continue;
    const double next = survival[r][given[r]];
    if (best < 0 || next > largest) {
      best = r;
      largest = next;
    }
  }
  return best;
}

}  // namespace

// [snippet give-rows]
std::vector<int> give_rows(std::span<const std::span<const double>> survival,
                           const RowBudget& budget) {
  std::vector<int> given(survival.size(), 0);
  int rows = int_size(survival);  // of the pending tokens
  double tokens = rows;           // that the pass is expected to emit
  for (int n = 0; n < budget.most; n++, rows++) {
    const int best = best_place(survival, given);
    if (best < 0) break;
    const double expected = survival[best][given[best]];
    if (budget.costs != nullptr) {
      const double cost = budget.draft_seconds + budget.costs->seconds(rows);
      if (expected * cost < tokens * budget.costs->of_next_row(rows)) break;  // it does not pay
    }
    given[best]++;
    tokens += expected;
  }
  return given;
}
// [end snippet give-rows]

}  // namespace specdec
