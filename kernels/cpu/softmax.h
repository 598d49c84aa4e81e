#pragma once
#include <cstdint>
#include <span>

#include "kernels/sampling.h"

// The passes over the vocabulary that make a distribution and draw from it, vectorised. Sums have
// the order of kernels/sampling.h, whatever the width of vectors.
namespace specdec::cpu {

// The largest of scores [V]; NaN if one of them is NaN or plus infinity.
float largest_score(std::span<const float> scores);

// weights[i] = e^((scores[i] - peak) scale); returns their sum. REQUIRES: peak is finite and at
// least the largest score; scale > 0; weights has the size of scores.
double exponentiate(std::span<const float> scores, float peak, double scale,
                    std::span<double> weights);

// The same sum, without the weights.
double sum_of_exponentials(std::span<const float> scores, float peak, double scale);

void multiply(std::span<double> values, double factor);

// The sum of weights [V]; NaN if one is negative or NaN.
double sum(std::span<const double> weights);

// The sum over a vocabulary in which token ids[j] has weights[j], and all others have zero.
// REQUIRES: ids ascend; weights has the size of ids.
double sum(std::span<const std::int32_t> ids, std::span<const double> weights);

// The first token, in the order of ids, at which the running sum of weights [V] exceeds the mark;
// if none does, the last token with a weight above 0; -1 if there is none. REQUIRES: no weight is
// negative.
std::int32_t first_above(double mark, std::span<const double> weights);

// Writes the scores of at least `bound` and their ids; returns how many there are. ids and kept
// have room for all scores.
std::size_t collect_at_least(float bound, std::span<const float> scores,
                             std::span<std::int32_t> ids, std::span<float> kept);

// The sum of weights, each at most 1 and rounded to a whole number of kWeightUnit.
std::uint64_t sum_of_units(std::span<const double> weights);

// The sum of the weights of at least `bound`, in an unspecified order: use it only for bounds.
double sum_at_least(double bound, std::span<const double> weights);

// maxima[c] = the largest of the scores c, c + columns, c + 2 columns, ... REQUIRES: columns, the
// size of maxima, is a multiple of 16 and at most V.
void column_maxima(std::span<const float> scores, std::span<float> maxima);

}  // namespace specdec::cpu
