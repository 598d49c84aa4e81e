#include "stages/programs/comparator/comparator.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "common/base/check.h"
#include "common/base/error.h"
#include "stages/programs/comparator/likely_cause.h"
#include "stages/programs/comparator/matrix.h"

namespace specdec {
namespace {

using Rows = std::vector<std::size_t>;
using Status = ComparisonStatus;

// A walk through the golden tensors, with its result so far.
class Walk {
 public:
  Walk(const GoldenFile& golden, const ComparisonOptions& options)
      : golden_(golden), options_(options) {}

  // False: the walk ends here.
  bool visit(const GoldenTensor& golden, const std::optional<TensorView>& computed);
  ComparisonResult finish();

 private:
  bool missing(const GoldenTensor& golden);
  bool has_some_columns(const GoldenTensor& golden) const {
    return golden.place.kind == TensorKind::kLogits && !golden_.logits_ids().empty();
  }
  bool compare_values(const GoldenTensor& golden, const Matrix& all_got);
  void agrees(const GoldenTensor& golden);
  void differs(const GoldenTensor& golden, const Matrix& got, const Matrix& want);
  void find_first(const GoldenTensor& golden, const Matrix& got, const Matrix& want,
                  std::size_t bad_row);
  bool stop(Status status, const GoldenTensor& golden, const std::string& what);
  std::string where() const;
  std::string cause_text(const GoldenTensor& golden) const;
  std::string upstream_text() const;

  const GoldenFile& golden_;
  const ComparisonOptions& options_;
  ComparisonResult result_;
  std::string last_agreed_;
  double largest_ = -1;  // error / tolerance, over the tensors that agree
  std::string largest_text_;
};

Rows all_rows(const Matrix& matrix) {
  Rows rows(matrix.rows);
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  return rows;
}

// The tokens from `first` on.
Matrix last_rows(const Matrix& all, std::size_t first) {
  Matrix result(all.rows - first, all.cols);
  std::ranges::copy(std::span(all.values).subspan(first * all.cols), result.values.begin());
  return result;
}

// The columns of the logits that the golden file stores.
Matrix columns(const Matrix& all, std::span<const TokenId> ids) {
  Matrix result(all.rows, ids.size());
  for (std::size_t r = 0; r < all.rows; ++r) {
    std::ranges::transform(ids, result.row(r).begin(), [&](TokenId id) { return all.row(r)[id]; });
  }
  return result;
}

double norm(std::span<const double> values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

// "nan" without the sign that printf gives it.
std::string number(double value, int digits) {
  return std::isnan(value) ? "NaN" : fmt::format("{:.{}g}", value, digits);
}

bool Walk::visit(const GoldenTensor& golden, const std::optional<TensorView>& computed) {
  result_.tolerance = std::max(golden.tolerance, options_.least_tolerance);
  if (!computed) return missing(golden);
  const std::int64_t width =
      has_some_columns(golden) ? golden_.shape().vocab_size : golden.view.shape[1];
  const std::vector<std::int64_t> shape{std::ssize(golden_.tokens()), width};
  if (computed->shape != shape) {
    return stop(Status::kWrongShape, golden,
                fmt::format("has the shape [{}], want [{}]", fmt::join(computed->shape, ", "),
                            fmt::join(shape, ", ")));
  }
  if (computed->dtype != DType::kF32) {
    return stop(Status::kWrongType, golden,
                fmt::format("is of type {}, want F32", dtype_name(computed->dtype)));
  }
  return compare_values(golden, to_matrix(*computed));
}

bool Walk::missing(const GoldenTensor& golden) {
  const bool is_last = &golden == &golden_.tensors().back();
  if (options_.every_tensor || is_last) {
    return stop(Status::kMissing, golden, "is missing: the program has no tensor of that name");
  }
  result_.not_checked.push_back(golden.name);
  return true;
}

bool Walk::compare_values(const GoldenTensor& golden, const Matrix& all_got) {
  Matrix got = last_rows(all_got, golden_.first_row());
  if (has_some_columns(golden)) got = columns(got, golden_.logits_ids());
  const Matrix want = to_matrix(golden.view);
  result_.error = relative_error(got, want, all_rows(want));
  if (!within(result_.error, result_.tolerance)) {
    differs(golden, got, want);
    return false;
  }
  // For rows and columns that are not stored, the golden file has the norm.
  const bool some_columns = has_some_columns(golden);
  const double all_norm = norm(all_got.values);
  const double norm_error =
      all_norm == golden.norm ? 0 : std::abs(all_norm - golden.norm) / golden.norm;
  const bool is_whole = golden_.has_all_rows() && !some_columns;
  if (!is_whole && !within(norm_error, result_.tolerance)) {
    result_.error = norm_error;
    result_.got = all_norm;
    result_.want = golden.norm;
    return stop(
        Status::kDiffers, golden,
        fmt::format("differs in a token before {}{}: the norm over all {} tokens is {:.9g}, "
                    "want {:.9g}; the tokens from {} on agree{}",
                    golden_.first_row(), some_columns ? ", or in a column that is not stored" : "",
                    all_got.rows, all_norm, golden.norm, golden_.first_row(),
                    some_columns ? " in the others" : ""));
  }
  agrees(golden);
  return true;
}

void Walk::agrees(const GoldenTensor& golden) {
  ++result_.agreed;
  last_agreed_ = golden.name;
  if (result_.error / result_.tolerance > largest_) {
    largest_ = result_.error / result_.tolerance;
    largest_text_ = fmt::format("{} with error {:.1e}, tolerance {:.1e}", golden.name,
                                result_.error, result_.tolerance);
  }
}

void Walk::differs(const GoldenTensor& golden, const Matrix& got, const Matrix& want) {
  // There is a bad row: if all rows were within the tolerance, so would be the tensor (apart from
  // the rounding of the norms).
  Rows bad_rows;
  for (const std::size_t row : all_rows(want)) {
    const std::size_t one[] = {row};
    if (!within(relative_error(got, want, one), result_.tolerance)) bad_rows.push_back(row);
  }
  if (bad_rows.empty()) bad_rows = all_rows(want);
  find_first(golden, got, want, bad_rows[0]);
  const Upstream upstream(golden_, options_.checkpoint, golden.place, bad_rows[0]);
  result_.cause = likely_cause(upstream, got, bad_rows, result_.tolerance);
  stop(Status::kDiffers, golden,
       fmt::format("differs, first at {}\n  got {}, want {}\n  error {} (norm of the difference / "
                   "norm), tolerance {}; {} of {} tokens exceed it",
                   where(), number(result_.got, 9), number(result_.want, 9),
                   number(result_.error, 3), number(result_.tolerance, 3), bad_rows.size(),
                   want.rows));
  result_.report += "\n  " + cause_text(golden);
}

// Finds the first element that is off by more than the tolerance times the RMS of its row. There is
// one, for the same reason as above.
void Walk::find_first(const GoldenTensor& golden, const Matrix& got, const Matrix& want,
                      std::size_t bad_row) {
  const std::span<const double> got_row = got.row(bad_row);
  const std::span<const double> want_row = want.row(bad_row);
  const double rms = norm(want_row) / std::sqrt(want.cols);
  std::size_t index = 0;
  while (index + 1 < want.cols &&
         within(std::abs(got_row[index] - want_row[index]), result_.tolerance * rms)) {
    ++index;
  }
  result_.token = golden_.first_row() + bad_row;
  result_.index = has_some_columns(golden) ? golden_.logits_ids()[index] : static_cast<int>(index);
  if (has_heads(golden.place.kind)) {
    result_.head = result_.index / golden_.shape().head_dim;
    result_.dim = result_.index % golden_.shape().head_dim;
  }
  result_.got = got_row[index];
  result_.want = want_row[index];
}

bool Walk::stop(Status status, const GoldenTensor& golden, const std::string& what) {
  result_.status = status;
  result_.tensor = golden.name;
  result_.layer = golden.place.layer;
  result_.report = fmt::format("{} {}\n  {}", golden.name, what, upstream_text());
  return false;
}

std::string Walk::where() const {
  std::string text = fmt::format("token {}, index {}", result_.token, result_.index);
  if (result_.head >= 0) text += fmt::format(" (head {}, dim {})", result_.head, result_.dim);
  return text;
}

std::string Walk::cause_text(const GoldenTensor& golden) const {
  if (!result_.cause.empty()) return "likely cause: " + result_.cause;
  return fmt::format("likely cause: no known mistake gives these values{}; want: {}",
                     options_.checkpoint ? "" : " (more are known with the checkpoint)",
                     tensor_kind_equation(golden.place.kind));
}

std::string Walk::upstream_text() const {
  std::string text = "nothing upstream of it was compared";
  if (result_.agreed > 0) {
    text = fmt::format("everything upstream agrees: {} tensor{}, the last one {}", result_.agreed,
                       result_.agreed == 1 ? "" : "s", last_agreed_);
  }
  if (result_.not_checked.empty()) return text;
  return fmt::format("{}; NOT CHECKED, because the program does not have them: {}", text,
                     fmt::join(result_.not_checked, ", "));
}

ComparisonResult Walk::finish() {
  if (!result_.agrees()) return result_;
  result_.error = result_.tolerance = 0;  // they are of a tensor that differs
  result_.report =
      fmt::format("{} tensor{} of {} agree; the largest error is in {}", result_.agreed,
                  result_.agreed == 1 ? "" : "s", golden_.name(), largest_text_);
  if (!result_.not_checked.empty()) {
    result_.report += fmt::format("\n  NOT CHECKED, because the program does not have them: {}",
                                  fmt::join(result_.not_checked, ", "));
  }
  return result_;
}

void check_same_model(const GoldenFile& golden, const Checkpoint& checkpoint) {
  if (!golden.shape().is_of(checkpoint.config())) {
    fail("{}: belongs to a model of a different shape than {}", golden.name(),
         checkpoint.directory().string());
  }
}

}  // namespace

TensorLookup lookup_in(const SafetensorsFile& dump) {
  return [&dump](const std::string& name) -> std::optional<TensorView> {
    if (!dump.contains(name)) return std::nullopt;
    return dump.tensor(name);
  };
}

TensorView float_tensor(std::span<const float> values, std::int64_t rows, std::int64_t width) {
  SPECDEC_CHECK(std::ssize(values) == rows * width, "{} x {} values, not {}", rows, width,
                values.size());
  return {DType::kF32, {rows, width}, std::as_bytes(values)};
}

ComparisonResult compare(const GoldenFile& golden, const TensorLookup& computed,
                         const ComparisonOptions& options) {
  if (options.checkpoint != nullptr) check_same_model(golden, *options.checkpoint);
  Walk walk(golden, options);
  for (const GoldenTensor& tensor : golden.tensors()) {
    if (!walk.visit(tensor, computed(tensor.name))) break;
  }
  return walk.finish();
}

}  // namespace specdec
