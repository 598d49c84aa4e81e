#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "common/checkpoint/elements.h"

namespace specdec {

// Rows of float64 numbers, for the comparator. An empty matrix means that the values cannot be
// computed from the available tensors. If an operand is empty, or if operands do not fit each
// other, every function below returns an empty matrix.
struct Matrix {
  Matrix() = default;
  Matrix(std::size_t row_count, std::size_t col_count)
      : rows(row_count), cols(col_count), values(row_count * col_count) {}

  bool empty() const { return values.empty(); }
  std::span<double> row(std::size_t i) { return std::span(values).subspan(i * cols, cols); }
  std::span<const double> row(std::size_t i) const {
    return std::span(values).subspan(i * cols, cols);
  }

  std::size_t rows = 0;
  std::size_t cols = 0;
  std::vector<double> values;  // [rows, cols]
};

// REQUIRES: a readable type, and one or two dimensions (one becomes a single row).
Matrix to_matrix(const TensorView& tensor);

Matrix operator+(const Matrix& a, const Matrix& b);
Matrix operator-(const Matrix& a, const Matrix& b);
Matrix operator*(const Matrix& a, const Matrix& b);  // element by element
Matrix operator*(double factor, const Matrix& a);
Matrix apply(double (*function)(double), const Matrix& a);

// The layout of a weight matrix. Checkpoints store [outputs, inputs].
enum class WeightLayout { kOutputsByInputs, kInputsByOutputs };

// y = W x for each row x of the input; [rows, inputs] to [rows, outputs]. `weight` may be null.
Matrix project(const Matrix& input, const TensorView* weight,
               WeightLayout layout = WeightLayout::kOutputsByInputs);

// ||a - b|| / ||b|| over the given rows; 0 if both are zero. NaN and infinity pass through.
double relative_error(const Matrix& a, const Matrix& b, std::span<const std::size_t> rows);

// Everything here is accepted by this condition alone. NaN compares false, so it is never accepted.
bool within(double error, double tolerance);

}  // namespace specdec
