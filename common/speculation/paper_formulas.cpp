#include "common/speculation/paper_formulas.h"

#include <cmath>
#include <vector>

#include "common/base/check.h"

namespace specdec {
namespace {

void check_alpha(double alpha) {
  SPECDEC_CHECK(alpha >= 0 && alpha <= 1, "alpha {} to be a probability", alpha);
}

void check_cost(double cost) {
  SPECDEC_CHECK(cost >= 0 && std::isfinite(cost),
                "a finite relative cost of the draft of at least 0, not {}", cost);
}

}  // namespace

// [snippet expected-emitted]
double expected_emitted(double alpha, int spec_length) {
  check_alpha(alpha);
  SPECDEC_CHECK(spec_length >= 0, "a spec_length of at least 0, not {}", spec_length);
  // The quotient is the sum 1 + alpha + ... + alpha^K: a round emits more than i tokens with
  // probability alpha^i. Summed from the small end, nothing cancels near 1, and 1 is no exception.
  double sum = 1;
  for (int i = 0; i < spec_length; i++) sum = 1 + alpha * sum;
  return sum;
}
// [end snippet expected-emitted]

double walltime_factor(double alpha, int spec_length, double c, double v) {
  check_cost(c);
  SPECDEC_CHECK(v > 0 && std::isfinite(v), "a target pass to take a finite time above 0, not {}",
                v);
  return expected_emitted(alpha, spec_length) / (spec_length * c + v);
}

double operations_factor(double alpha, int spec_length, double c_ops) {
  check_cost(c_ops);
  return (spec_length * c_ops + spec_length + 1) / expected_emitted(alpha, spec_length);
}

double memory_access_factor(double alpha, int spec_length, double c_bytes) {
  check_cost(c_bytes);
  return (spec_length * c_bytes + 1) / expected_emitted(alpha, spec_length);
}

// [snippet best-spec-length]
int best_spec_length(double alpha, std::span<const double> round_costs) {
  int best = 0;
  double best_factor = 1;  // plain decoding
  for (int K = 1; K < std::ssize(round_costs); K++) {
    const double factor = expected_emitted(alpha, K) / round_costs[static_cast<std::size_t>(K)];
    if (factor > best_factor) {
      best = K;
      best_factor = factor;
    }
  }
  return best;
}
// [end snippet best-spec-length]

int best_spec_length(double alpha, double c, double v, int max_spec_length) {
  SPECDEC_CHECK(max_spec_length >= 0, "a max_spec_length of at least 0, not {}", max_spec_length);
  std::vector<double> round_costs;
  for (int K = 0; K <= max_spec_length; K++) round_costs.push_back(K * c + v);
  return best_spec_length(alpha, round_costs);
}

bool can_be_faster(double alpha, double c) {
  check_alpha(alpha);
  check_cost(c);
  return alpha > c;
}

double least_best_factor(double alpha, double c) { return walltime_factor(alpha, 1, c); }

double oracle_emitted(double alpha) {
  check_alpha(alpha);
  return 1 / (1 - alpha);
}

double oracle_walltime_factor(double alpha, double c) {
  check_alpha(alpha);
  check_cost(c);
  // (1 / (1 - alpha)) / (1 + c alpha / (1 - alpha)), and no 0 / 0 at alpha = 1
  return 1 / (1 - alpha + c * alpha);
}

}  // namespace specdec
