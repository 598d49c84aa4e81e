#pragma once
#include <span>

namespace specdec {

// What speculation buys, by formula (Leviathan, Kalman and Matias, ICML 2023, section 3).
//
// The model of reality: each tested draft token is accepted with probability alpha, independently
// of the others. So a round emits a capped geometric number of tokens, and everything below
// follows. Real rounds are not independent; programs print the measured numbers beside these.
//
//   alpha        accepted / tested, in [0, 1]; the paper's E(beta) = E(sum min(p, q))
//   spec_length  K, drafted tokens per round, at least 0; 0 is plain decoding. The paper's gamma
//   c            time of one draft step over time of one target step, at least 0
//   v            time of a target pass over K + 1 rows over that of one row, above 0. The paper
//                assumes 1: enough arithmetic units are idle
// All results are numbers without a unit: tokens per round, or ratios to plain decoding per token.
// REQUIRES, for all functions: the arguments are in these ranges, or the program aborts.

// Tokens a round emits on average: (1 - alpha^(K+1)) / (1 - alpha), equation (1), and K + 1 at
// alpha = 1. In [1, K + 1].
double expected_emitted(double alpha, int spec_length);

// How much faster than plain decoding: expected_emitted / (K c + v). With v = 1, Theorem 3.8. Below
// 1, speculation loses time.
double walltime_factor(double alpha, int spec_length, double c, double v = 1);

// How many more arithmetic operations than plain decoding: (K c_ops + K + 1) / expected_emitted,
// Theorem 3.11. c_ops: the draft's operations per token over the target's, the paper's c hat. At
// least 1: rejected tokens were computed for nothing.
double operations_factor(double alpha, int spec_length, double c_ops);

// How many of the bytes of plain decoding are read: (K c_bytes + 1) / expected_emitted. c_bytes:
// what the draft reads a step over what the target reads. With 0 it is the target's weights and
// cache alone, which section 3.4 says are read once a round, 1 / equation (1).
double memory_access_factor(double alpha, int spec_length, double c_bytes = 0);

// The K with the largest walltime factor expected_emitted / round_costs[K], the smallest among
// equals (section 3.5 and Figure 3). 0 where no K is faster than plain decoding: then do not
// speculate. round_costs: [largest K + 1], what a round of K drafts costs, in plain steps: K c + v,
// with the v of K + 1 rows. [0] is not looked at: a round without drafts is a plain step.
// REQUIRES: at least one cost; those of K > 0 are above 0.
int best_spec_length(double alpha, std::span<const double> round_costs);

// The same for a v that does not depend on K > 0. REQUIRES: max_spec_length >= 0.
int best_spec_length(double alpha, double c, double v, int max_spec_length);

// Corollary 3.9, for v = 1: whether any K is faster than plain decoding, which is alpha > c.
bool can_be_faster(double alpha, double c);

// And how much at least, with the best K: (1 + alpha) / (1 + c), the factor of K = 1.
double least_best_factor(double alpha, double c);

// Tokens per round if an oracle said beforehand how many drafts will be accepted, and no more were
// drafted: 1 / (1 - alpha), section 3.5; infinity at alpha = 1. No K emits more.
double oracle_emitted(double alpha);

// The walltime factor of that oracle for v = 1, where it drafts all but the last of what a round
// emits: oracle_emitted / (1 + c (oracle_emitted - 1)); 1 / c at alpha = 1. For c <= 1 no K is
// faster, and this one is up to e / (e - 1) = 1.58 times as fast as the best K, with K = 0 (plain
// decoding) among them. Without K = 0 it can be more: 1.82 for alpha = 0.1 and c = 1.
double oracle_walltime_factor(double alpha, double c);

}  // namespace specdec
