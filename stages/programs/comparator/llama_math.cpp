#include "stages/programs/comparator/llama_math.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace specdec {
namespace {

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Turns scores into probabilities over the seen keys; all zeros if no key is seen.
void softmax(std::vector<double>& scores, const std::vector<bool>& seen) {
  double highest = -std::numeric_limits<double>::infinity();
  for (std::size_t t = 0; t < scores.size(); ++t) {
    if (seen[t]) highest = std::max(highest, scores[t]);
  }
  double sum = 0;
  for (std::size_t t = 0; t < scores.size(); ++t) {
    scores[t] = seen[t] ? std::exp(scores[t] - highest) : 0;
    sum += scores[t];
  }
  for (double& score : scores) score = sum > 0 ? score / sum : 0;
}

}  // namespace

double silu(double x) { return x / (1 + std::exp(-x)); }

double gelu_erf(double x) { return x / 2 * (1 + std::erf(x / std::numbers::sqrt2)); }

double gelu_tanh(double x) {
  const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return x / 2 * (1 + std::tanh(inner));
}

Matrix rms_norm(const Matrix& x, const Matrix& weight, const NormRule& rule) {
  if (weight.cols != x.cols) return {};
  const double width = x.cols;
  Matrix result = x;
  for (std::size_t t = 0; t < x.rows; ++t) {
    const std::span<double> row = result.row(t);
    double mean = 0;
    for (const double value : row) mean += value / width;
    if (rule.subtract_mean) {
      for (double& value : row) value -= mean;
    }
    const double square = dot(row, row) / (rule.sum_for_mean ? 1 : width);
    const double divisor = std::sqrt(square + rule.eps_inside) + rule.eps_outside;
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] *= (rule.apply_weight ? rule.weight_offset + weight.values[i] : 1) / divisor;
    }
  }
  return result;
}

Matrix rope(const Matrix& x, const RopeRule& rule) {
  if (x.rows != rule.positions.size() || x.cols % rule.head_dim != 0) return {};
  const std::size_t half = rule.head_dim / 2;
  Matrix result = x;
  for (std::size_t t = 0; t < x.rows; ++t) {
    for (std::size_t pair = 0; pair < x.cols / 2; ++pair) {
      const std::size_t head = pair / half * rule.head_dim;
      const std::size_t j = pair % half;
      const std::size_t a = head + (rule.adjacent_pairs ? 2 * j : j);
      const std::size_t b = rule.adjacent_pairs ? a + 1 : a + half;
      // A product in float32, as in every Llama since its training.
      const float position = rule.positions[t], frequency = rule.frequencies[j];
      const float turn = position * frequency;
      const double angle = rule.direction * turn;
      result.row(t)[a] = x.row(t)[a] * std::cos(angle) - x.row(t)[b] * std::sin(angle);
      result.row(t)[b] = x.row(t)[b] * std::cos(angle) + x.row(t)[a] * std::sin(angle);
    }
  }
  return result;
}

Matrix attention(const Matrix& q, const Matrix& k, const Matrix& v, const AttentionRule& rule) {
  const std::size_t width = rule.head_dim;
  const bool fit = q.cols == rule.n_heads * width && k.rows == q.rows && v.rows == q.rows &&
                   k.cols == v.cols && !q.empty() && !k.empty();
  if (!fit) return {};
  Matrix result(q.rows, q.cols);
  for (std::size_t head = 0; head < rule.n_heads; ++head) {
    const std::size_t from = rule.kv_head(head) * width;
    for (std::size_t query = 0; query < q.rows; ++query) {
      std::vector<double> scores(k.rows);
      std::vector<bool> seen(k.rows);
      for (std::size_t t = 0; t < k.rows; ++t) {
        seen[t] = rule.sees(query, t);
        scores[t] = rule.scale *
                    dot(q.row(query).subspan(head * width, width), k.row(t).subspan(from, width));
      }
      softmax(scores, seen);
      for (std::size_t t = 0; t < v.rows; ++t) {
        for (std::size_t i = 0; i < width; ++i) {
          result.row(query)[head * width + i] += scores[t] * v.row(t)[from + i];
        }
      }
    }
  }
  return result;
}

}  // namespace specdec
