#pragma once
#include <span>

namespace specdec {

// The expected gain from speculation (Leviathan, Kalman and Matias, ICML 2023, section 3).
//
// The paper assumes that each tested draft is accepted with probability alpha, independently of the
// others. Then a round emits a capped geometric number of tokens, and everything below follows.
// Real drafts are not independent, so programs print measured numbers next to these.
//
//   alpha        accepted / tested, in [0, 1]; the paper's E(beta) = E(sum min(p, q))
//   spec_length  K, drafted tokens per round, at least 0; 0 is plain decoding. The paper's gamma
//   c            time of one draft step / time of one target step
//   v            time of a target pass with K + 1 rows / time of one with 1 row. The paper assumes
//                1, because enough arithmetic units are idle
// docs/experiments/formulas.py has all formulas of the chapter on theory; these are the two that
// programs use. REQUIRES: arguments in these ranges, or the program aborts.

// The average number of tokens that a round emits: (1 - alpha^(K+1)) / (1 - alpha), equation (1),
// and K + 1 at alpha = 1. In [1, K + 1].
double expected_emitted(double alpha, int spec_length);

// The K with the largest speedup over plain decoding, expected_emitted / round_costs[K] (Theorem
// 3.8), the smallest among equals (section 3.5 and Figure 3). 0 if no K is faster than plain
// decoding: then do not speculate. round_costs: [largest K + 1], the cost of a round with K drafts
// in plain steps: K c + v, with the v of K + 1 rows. [0] is never read, because a round without
// drafts is a plain step. REQUIRES: at least one cost; those of K > 0 are above 0.
int best_spec_length(double alpha, std::span<const double> round_costs);

}  // namespace specdec
