#pragma once
#include <limits>
#include <span>
#include <vector>

namespace specdec {

// Isotonic regression: the values that never fall and whose squared distance to these is smallest.
// Each is the mean of a stretch of the given values.
std::vector<double> isotonic(std::span<const double> values);

// T(M): what a pass over M rows takes, between and beyond the measured numbers of rows. It is the
// lower convex hull of the measurements, so no row costs less than the row before it: when a row
// does not pay, no later one does.
class CostCurve {
 public:
  struct Point {
    int rows = 0;
    double seconds = 0;
  };

  // REQUIRES: at least one point; rows ascend from 1 on; seconds are positive.
  explicit CostCurve(std::vector<Point> measured);

  double seconds(double rows) const;
  double of_next_row(double rows) const { return seconds(rows + 1) - seconds(rows); }

 private:
  std::vector<Point> hull_;
};

// How many rows the drafts of a batch get in one pass.
struct RowBudget {
  static constexpr int kAll = std::numeric_limits<int>::max();

  int most = kAll;                   // --rows N
  const CostCurve* costs = nullptr;  // --rows auto: only rows that pay; null: all up to `most`
  double draft_seconds = 0;          // what drafting costs in such a step, by earlier steps
};

// The number of rows for the drafts of each request of a batch.
//
// survival[r][i]: the estimated probability that draft i of request r and those before it are
// accepted, from what is known before draft i is drawn. The place with the largest survival gets
// the next row. A place is looked at only when all places before it have rows, and the first place
// that does not pay ends it all. So whether place i of a request gets a row depends on its survival
// and on places that got theirs before, but never on draft i or a later draft of that request.
std::vector<int> give_rows(std::span<const std::span<const double>> survival,
                           const RowBudget& budget);

}  // namespace specdec
