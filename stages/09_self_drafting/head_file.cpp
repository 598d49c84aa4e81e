#include "stages/09_self_drafting/head_file.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/ranges.h>

#include "common/base/error.h"
#include "common/base/mapped_file.h"
#include "common/checkpoint/elements.h"
#include "kernels/cpu/half.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

constexpr std::string_view kScale = "_scale";  // after the name of an int8 matrix

}  // namespace

HeadFile::HeadFile(const std::filesystem::path& folder, int d_model)
    : root_(parse_json(read_text_file(folder / "config.json"), (folder / "config.json").string())),
      config_(root_, (folder / "config.json").string()),
      file_(folder / "model.safetensors") {
  if (d_model > 0 && config_.has("hidden_size") && size_of("hidden_size") != d_model) {
    fail("{}: hidden_size is {}, and the target's is {}", config_.name(), size_of("hidden_size"),
         d_model);
  }
}

int HeadFile::size_of(const char* key) const {
  constexpr int kMost = 1 << 20;
  const int number = config_.required_integer(key);
  if (number < 1 || number > kMost) {
    fail("{}: {} is {}; it must be from 1 to {}", config_.name(), key, number, kMost);
  }
  return number;
}

int HeadFile::width(const std::string& name) const {
  if (!contains(name)) return 0;
  const std::vector<std::int64_t> shape = file_.tensor(name).shape;
  return shape.empty() ? 0 : static_cast<int>(shape.back());
}

TensorView HeadFile::take_any(const std::string& name, const std::vector<std::int64_t>& shape) {
  if (!contains(name)) fail("{}: the tensor {} is missing", file_.name(), name);
  TensorView tensor = file_.tensor(name);
  if (tensor.shape != shape) {
    fail("{}: tensor {} has the shape [{}], not [{}]: these heads belong to another target",
         file_.name(), name, fmt::join(tensor.shape, ", "), fmt::join(shape, ", "));
  }
  taken_.insert(name);
  return tensor;
}

TensorView HeadFile::take(const std::string& name, const std::vector<std::int64_t>& shape) {
  const TensorView tensor = take_any(name, shape);
  if (tensor.dtype == DType::kI8 && shape.size() == 2) return dequantised(name, tensor);
  if (!is_readable(tensor.dtype) || tensor.dtype == DType::kF64) {
    fail("{}: tensor {} is of type {}; supported are BF16, F16 and F32", file_.name(), name,
         dtype_name(tensor.dtype));
  }
  return tensor;
}

TensorView HeadFile::take_row(const std::string& name, int width) {
  std::vector<std::int64_t> shape = {width};
  if (contains(name))
    shape.insert(shape.begin(), std::max(1, int_size(file_.tensor(name).shape)) - 1, 1);
  return take(name, shape);
}

TensorView HeadFile::take(const std::string& name, const std::vector<std::int64_t>& shape,
                          DType type) {
  const TensorView tensor = take_any(name, shape);
  if (tensor.dtype != type) {
    fail("{}: tensor {} is of type {}, not {}", file_.name(), name, dtype_name(tensor.dtype),
         dtype_name(type));
  }
  return tensor;
}

std::vector<float> HeadFile::scales_of(const std::string& matrix, std::int64_t rows) {
  const std::string name = matrix + std::string(kScale);
  if (!contains(name)) {
    fail("{}: tensor {} is of type I8, and its scales {} are missing", file_.name(), matrix, name);
  }
  const TensorView scale = take_any(name, {rows, 1});
  if (scale.dtype != DType::kF32 && scale.dtype != DType::kBF16) {
    fail("{}: tensor {} is of type {}; scales are F32 or BF16", file_.name(), name,
         dtype_name(scale.dtype));
  }
  std::vector<float> scales = to_float32(scale);
  for (std::size_t row = 0; row < scales.size(); ++row) {
    if (!std::isfinite(scales[row])) {
      fail("{}: tensor {}: the scale of row {} is {}", file_.name(), name, row, scales[row]);
    }
  }
  return scales;
}

TensorView HeadFile::dequantised(const std::string& name, const TensorView& matrix) {
  const std::int64_t rows = matrix.shape[0], columns = matrix.shape[1];
  const std::vector<float> scales = scales_of(name, rows);
  std::vector<std::uint16_t>& made = made_.emplace_back();
  made.reserve(matrix.bytes.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    for (const std::byte q : matrix.bytes.subspan(row * columns, columns)) {
      made.push_back(cpu::bf16_from_float(static_cast<std::int8_t>(q) * scales[row]));
    }
  }
  return {DType::kBF16, matrix.shape, std::as_bytes(std::span(made))};
}

void HeadFile::refuse_leftovers() const {
  for (const TensorEntry& tensor : file_.header().tensors) {
    if (taken_.contains(tensor.name)) continue;
    if (const auto end = tensor.name.rfind(kScale);
        tensor.name.ends_with(kScale) && taken_.contains(tensor.name.substr(0, end))) {
      fail("{}: tensor {} has scales, but {} is not of type I8", file_.name(), tensor.name,
           tensor.name.substr(0, end));
    }
    fail("{}: tensor {} belongs to no heads that we can compute", file_.name(), tensor.name);
  }
}

TokenId mask_token(const JsonObject& config, int vocab_size) {
  for (const char* key : {"pard_token", "ptd_token_id", "mask_token_id"}) {
    const auto mask = config.integer(key);
    if (!mask) continue;
    if (0 <= *mask && *mask < vocab_size) return *mask;
    fail("{}: {} is {}, and the vocabulary has {} rows", config.name(), key, *mask, vocab_size);
  }
  fail("{}: pard_token is missing: this model does not draft in parallel", config.name());
}

}  // namespace specdec
