#include "stages/programs/comparator/matrix.h"

#include <cmath>
#include <utility>

#include "common/base/check.h"

namespace specdec {
namespace {

template <typename Function>
Matrix combine(const Matrix& a, const Matrix& b, Function&& function) {
  if (a.rows != b.rows || a.cols != b.cols) return {};
  Matrix result = a;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    result.values[i] = function(a.values[i], b.values[i]);
  }
  return result;
}

}  // namespace

Matrix to_matrix(const TensorView& tensor) {
  SPECDEC_CHECK(is_readable(tensor.dtype), "a type that we read, not {}", dtype_name(tensor.dtype));
  SPECDEC_CHECK(tensor.shape.size() == 1 || tensor.shape.size() == 2, "one or two dimensions");
  const std::size_t rows = tensor.shape.size() == 2 ? tensor.shape[0] : 1;
  Matrix result(rows, tensor.shape.back());
  for (std::size_t i = 0; i < result.values.size(); ++i) {
    result.values[i] = tensor_element(tensor, i);
  }
  return result;
}

Matrix operator+(const Matrix& a, const Matrix& b) {
  return combine(a, b, [](double x, double y) { return x + y; });
}

Matrix operator-(const Matrix& a, const Matrix& b) {
  return combine(a, b, [](double x, double y) { return x - y; });
}

Matrix operator*(const Matrix& a, const Matrix& b) {
  return combine(a, b, [](double x, double y) { return x * y; });
}

Matrix operator*(double factor, const Matrix& a) {
  return combine(a, a, [&](double x, double) { return factor * x; });
}

Matrix apply(double (*function)(double), const Matrix& a) {
  return combine(a, a, [&](double x, double) { return function(x); });
}

Matrix project(const Matrix& input, const TensorView* weight, WeightLayout layout) {
  if (input.empty() || weight == nullptr) return {};
  if (std::cmp_not_equal(weight->shape[1], input.cols)) return {};
  const bool by_outputs = layout == WeightLayout::kOutputsByInputs;
  const std::size_t outputs = weight->shape[0];
  const std::size_t inputs = input.cols;
  Matrix result(input.rows, outputs);
  std::vector<double> column(inputs);  // the weights of one output, converted once for all rows
  for (std::size_t j = 0; j < outputs; ++j) {
    for (std::size_t i = 0; i < inputs; ++i) {
      column[i] = tensor_element(*weight, by_outputs ? j * inputs + i : i * outputs + j);
    }
    for (std::size_t r = 0; r < input.rows; ++r) {
      const std::span<const double> x = input.row(r);
      double sum = 0;
      for (std::size_t i = 0; i < inputs; ++i) sum += column[i] * x[i];
      result.row(r)[j] = sum;
    }
  }
  return result;
}

double relative_error(const Matrix& a, const Matrix& b, std::span<const std::size_t> rows) {
  SPECDEC_CHECK(a.rows == b.rows && a.cols == b.cols, "two matrices of one shape");
  double difference = 0;
  double norm = 0;
  for (const std::size_t r : rows) {
    for (std::size_t i = 0; i < a.cols; ++i) {
      const double d = a.row(r)[i] - b.row(r)[i];
      difference += d * d;
      norm += b.row(r)[i] * b.row(r)[i];
    }
  }
  return difference == 0 ? 0 : std::sqrt(difference) / std::sqrt(norm);
}

bool within(double error, double tolerance) { return std::isfinite(error) && error <= tolerance; }

}  // namespace specdec
