#include "common/speculation/paper_formulas.h"

#include "common/base/check.h"

namespace specdec {

// [snippet expected-emitted]
double expected_emitted(double alpha, int spec_length) {
  SPECDEC_CHECK(alpha >= 0 && alpha <= 1, "alpha {} to be a probability", alpha);
  SPECDEC_CHECK(spec_length >= 0, "a spec_length of at least 0, not {}", spec_length);
  // The quotient equals 1 + alpha + ... + alpha^K, because a round emits more than i tokens with
  // probability alpha^i. Horner's rule has no cancellation near alpha = 1, and works at 1, too.
  double sum = 1;
  for (int i = 0; i < spec_length; i++) sum = 1 + alpha * sum;
  return sum;
}
// [end snippet expected-emitted]

// [snippet best-spec-length]
int best_spec_length(double alpha, std::span<const double> round_costs) {
  int best = 0;
  double best_factor = 1;  // plain decoding
  for (int K = 1; K < std::ssize(round_costs); K++) {
    const double factor = expected_emitted(alpha, K) / round_costs[K];
    if (factor > best_factor) {
      best = K;
      best_factor = factor;
    }
  }
  return best;
}
// [end snippet best-spec-length]

}  // namespace specdec
