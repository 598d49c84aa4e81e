#pragma once
#include <cstddef>
#include <functional>
#include <vector>

#include "stages/programs/comparator/matrix.h"

namespace specdec {

// The operations of a Llama forward pass in float64. A rule holds the details that a correct
// computation fixes, so that each can be wrong in the known ways. Slow and short; used to explain a
// difference, never to find one.

struct NormRule {
  double eps_inside = 0;   // x / sqrt(mean(x^2) + eps_inside)
  double eps_outside = 0;  // x / (sqrt(mean(x^2)) + eps_outside)
  bool sum_for_mean = false;
  bool subtract_mean = false;  // as LayerNorm does
  bool apply_weight = true;
  double weight_offset = 0;  // 1: Gemma's (1 + weight)
};

struct RopeRule {
  std::size_t head_dim = 0;
  std::vector<double> frequencies;  // [head_dim / 2], a pair's angle at position 1
  std::vector<double> positions;    // [T]
  double direction = 1;             // -1: the other way round
  bool adjacent_pairs = false;      // (0, 1), (2, 3), ... instead of (i, i + head_dim / 2)
};

struct AttentionRule {
  std::size_t head_dim = 0;
  std::size_t n_heads = 0;
  double scale = 0;
  std::function<bool(std::size_t query, std::size_t key)> sees;
  std::function<std::size_t(std::size_t head)> kv_head;
};

double silu(double x);
double gelu_erf(double x);
double gelu_tanh(double x);

// x: [T, d_model], weight: [1, d_model]
Matrix rms_norm(const Matrix& x, const Matrix& weight, const NormRule& rule);

// x: [T, heads * head_dim]
Matrix rope(const Matrix& x, const RopeRule& rule);

// q: [T, n_heads * head_dim], k and v: [T, n_kv_heads * head_dim]. A query that sees no key gets
// zeros.
Matrix attention(const Matrix& q, const Matrix& k, const Matrix& v, const AttentionRule& rule);

}  // namespace specdec
