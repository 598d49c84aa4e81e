#include "stages/programs/comparator/likely_cause.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>

#include <fmt/format.h>

#include "stages/programs/comparator/wrong_variants.h"

namespace specdec {
namespace {

using Rows = std::vector<std::size_t>;

// A wrong variant explains the values if it is this many times closer to them than the golden
// tensor, and within this many tolerances: only rounding upstream may be left.
constexpr double kTimesCloser = 10;
constexpr double kTolerances = 10;

// The difference to explain.
struct Case {
  const Upstream& upstream;
  const Matrix& got;
  Matrix want;
  Rows rows;  // out of tolerance
  double tolerance;

  // golden_error: how far the golden values are from what was computed.
  bool explained_by(double variant_error, double golden_error) const {
    return within(variant_error, std::min(golden_error / kTimesCloser, kTolerances * tolerance));
  }
  bool explained_by(const Matrix& variant) const {
    if (variant.rows != got.rows || variant.cols != got.cols) return false;
    return explained_by(relative_error(got, variant, rows), relative_error(got, want, rows));
  }
  std::size_t token(std::size_t row) const { return row + upstream.golden().first_row(); }
};

// "token 3", "tokens 3 and 5", "tokens 3, 4, 5 and 7 more"
std::string name_tokens(const Case& c, std::span<const std::size_t> rows) {
  constexpr std::size_t kShown = 4;
  std::string text = rows.size() == 1 ? "token " : "tokens ";
  for (std::size_t i = 0; i < rows.size() && i < kShown; ++i) {
    const bool last = i + 1 == rows.size();
    text += fmt::format("{}{}", i == 0 ? "" : last ? " and " : ", ", c.token(rows[i]));
  }
  return rows.size() <= kShown ? text : fmt::format("{} and {} more", text, rows.size() - kShown);
}

Matrix one_row(const Matrix& matrix, std::size_t row) {
  Matrix result(1, matrix.cols);
  std::ranges::copy(matrix.row(row), result.values.begin());
  return result;
}

Rows rows_where(const Case& c, bool (*all_of_row)(std::span<const double>)) {
  Rows result;
  std::ranges::copy_if(c.rows, std::back_inserter(result),
                       [&](std::size_t row) { return all_of_row(c.got.row(row)); });
  return result;
}

bool has_nan(std::span<const double> row) {
  return std::ranges::any_of(row, [](double x) { return std::isnan(x); });
}

bool has_infinity(std::span<const double> row) {
  return std::ranges::any_of(row, [](double x) { return std::isinf(x); });
}

bool is_finite(std::span<const double> row) {
  return std::ranges::all_of(row, [](double x) { return std::isfinite(x); });
}

bool is_zero(std::span<const double> row) {
  return std::ranges::all_of(row, [](double x) { return x == 0; });
}

std::string explain_not_finite(const Case& c) {
  const Rows nan = rows_where(c, has_nan);
  const Rows infinite = rows_where(c, has_infinity);
  if (!nan.empty()) {
    const std::string where = name_tokens(c, nan) + (nan.size() == 1 ? " is NaN: " : " are NaN: ");
    if (c.upstream.kind() == TensorKind::kAttnOut && c.token(nan[0]) == 0 && nan.size() == 1) {
      return where + "a softmax over no keys; does the mask hide token 0 from itself?";
    }
    return where + "memory that was never written, or is used after it was freed?";
  }
  if (infinite.empty()) return "";
  return name_tokens(c, infinite) + (infinite.size() == 1 ? " holds" : " hold") +
         " infinity: exp without subtracting the maximum, a division by 0, or more than float16 "
         "can hold?";
}

std::string explain_by_variant(const Case& c) {
  double least = INFINITY;
  std::string words;
  for (const WrongVariant& variant : wrong_variants()) {
    const bool fits =
        std::ranges::find(variant.shows_in, c.upstream.kind()) != variant.shows_in.end();
    if (!fits) continue;
    const Matrix wrong = variant.compute(c.upstream);
    if (!c.explained_by(wrong)) continue;
    const double error = relative_error(c.got, wrong, c.rows);
    if (error * 2 >= least) continue;
    least = error;
    words = variant.words;
  }
  return words;
}

std::string explain_zeros(const Case& c) {
  const Rows zero = rows_where(c, is_zero);
  if (zero.empty()) return "";
  if (zero.size() == c.got.rows) return "everything is zero: was the result ever written here?";
  return name_tokens(c, zero) + (zero.size() == 1 ? " is" : " are") +
         " all zero: was the loop over the tokens too short?";
}

// Whether a computed row equals the golden row `from`, which may be out of range.
bool holds(const Case& c, std::size_t row, std::size_t from) {
  const Rows one{0};
  if (from >= c.want.rows || from == row) return false;
  const Matrix got = one_row(c.got, row);
  const double limit = relative_error(got, one_row(c.want, row), one);
  return c.explained_by(relative_error(got, one_row(c.want, from), one), limit);
}

bool all_hold(const Case& c, const std::function<std::size_t(std::size_t row)>& from) {
  return std::ranges::all_of(c.rows, [&](std::size_t row) { return holds(c, row, from(row)); });
}

std::string explain_by_rows(const Case& c) {
  if (c.rows.size() > 1 && all_hold(c, [](std::size_t row) { return row - 1; })) {
    return "each row holds the values of the token before it: the rows are shifted by one";
  }
  if (c.rows.size() > 1 && all_hold(c, [](std::size_t row) { return row + 1; })) {
    return "each row holds the values of the next token: the rows are shifted by one";
  }
  Rows sources;  // of each bad row, the golden row that it holds
  for (const std::size_t row : c.rows) {
    std::size_t from = 0;
    while (from < c.want.rows && !holds(c, row, from)) ++from;
    if (from == c.want.rows) return "";
    sources.push_back(from);
  }
  if (c.rows.size() == 2 && sources[0] == c.rows[1] && sources[1] == c.rows[0]) {
    return fmt::format("the rows of {} are swapped", name_tokens(c, c.rows));
  }
  if (std::ranges::count(sources, sources[0]) == std::ssize(sources)) {
    return fmt::format("{} hold{} the values of token {}: a wrong index, or rows left over?",
                       name_tokens(c, c.rows), c.rows.size() == 1 ? "s" : "", c.token(sources[0]));
  }
  return fmt::format(
      "the rows are in a different order: token {} holds the values of token {}, ...",
      c.token(c.rows[0]), c.token(sources[0]));
}

std::string explain_by_other_tensor(const Case& c) {
  for (const GoldenTensor& other : c.upstream.golden().tensors()) {
    if (!c.explained_by(to_matrix(other.view))) continue;
    return fmt::format(
        "these are the values of {}: the wrong buffer, or one that was overwritten later",
        other.name);
  }
  return "";
}

std::string explain_by_factor(const Case& c) {
  double product = 0;
  double square = 0;
  for (const std::size_t row : c.rows) {
    for (std::size_t i = 0; i < c.got.cols; ++i) {
      product += c.got.row(row)[i] * c.want.row(row)[i];
      square += c.want.row(row)[i] * c.want.row(row)[i];
    }
  }
  const double factor = product / square;
  if (!c.explained_by(factor * c.want)) return "";
  return fmt::format("every value is {:.6g} times what it must be", factor);
}

// Whether the lowest bits of all values are zero, as after a conversion to a shorter type.
bool lowest_bits_are_zero(const Matrix& values, int bits) {
  return std::ranges::all_of(values.values, [&](double x) {
    return std::bit_cast<std::uint32_t>(static_cast<float>(x)) << (32 - bits) == 0;
  });
}

std::string explain_by_rounding(const Case& c) {
  // Half a unit in the last of bf16's 8 significant bits, and as much again from upstream.
  constexpr double kLargest = 1.0 / 128;
  if (!within(relative_error(c.got, c.want, c.rows), kLargest)) return "";
  if (lowest_bits_are_zero(c.got, 16)) {
    return "the values are rounded to bf16: activations are float32, only weights are bf16";
  }
  if (lowest_bits_are_zero(c.got, 13)) {
    return "the values are rounded to float16: activations are float32, only weights are float16";
  }
  return "";
}

// Mistakes of structure change the numbers by much more.
std::string explain_small_error(const Case& c) {
  constexpr double kSmall = 1e-3;
  if (!within(relative_error(c.got, c.want, c.rows), kSmall)) return "";
  return "such a small error looks like arithmetic: a sum in too low a precision, an approximate "
         "exp or square root, a different constant?";
}

}  // namespace

std::string likely_cause(const Upstream& upstream, const Matrix& got,
                         std::span<const std::size_t> bad_rows, double tolerance) {
  Case c{upstream, got, upstream.want(), Rows(bad_rows.begin(), bad_rows.end()), tolerance};
  const std::string not_finite = explain_not_finite(c);
  if (!not_finite.empty()) {
    c.rows = rows_where(c, is_finite);
    const std::string rest = c.rows.empty() ? "" : explain_by_variant(c);
    return rest.empty() ? not_finite
                        : fmt::format("{} And in the other tokens: {}", not_finite, rest);
  }
  for (const auto explain :
       {explain_by_variant, explain_zeros, explain_by_rows, explain_by_other_tensor,
        explain_by_factor, explain_by_rounding, explain_small_error}) {
    const std::string words = explain(c);
    if (!words.empty()) return words;
  }
  return "";
}

}  // namespace specdec
