#include "common/checkpoint/grouped_tensor.h"

#include <fmt/format.h>

#include "common/base/check.h"
#include "common/base/error.h"

namespace specdec {
namespace {

constexpr std::int64_t kElements = 32;  // of a group

struct Grouped {
  DType dtype;
  std::string_view end;  // of a name
  std::size_t bytes;
};
constexpr Grouped kGrouped[] = {{DType::kQ4_1, ".q4_1", 20}, {DType::kQ8_0, ".q8_0", 34}};

}  // namespace

std::size_t group_bytes(DType dtype) {
  SPECDEC_CHECK(is_grouped(dtype), "groups, not {}", dtype_name(dtype));
  return dtype == DType::kQ4_1 ? kGrouped[0].bytes : kGrouped[1].bytes;
}

std::optional<DType> grouped_type(std::string_view tensor_name) {
  for (const Grouped& type : kGrouped) {
    if (tensor_name.ends_with(type.end)) return type.dtype;
  }
  return std::nullopt;
}

std::vector<std::string> grouped_names(const std::string& name) {
  std::vector<std::string> names;
  for (const Grouped& type : kGrouped) names.push_back(name + std::string(type.end));
  return names;
}

TensorView grouped_tensor(const SafetensorsFile& file, const std::string& name,
                          std::span<const std::int64_t> shape) {
  const DType dtype = *grouped_type(name);
  const TensorView bytes = file.tensor(name);
  if (bytes.dtype != DType::kU8) {
    fail("{}: tensor {} is of type {}; groups of {} are kept as U8", file.name(), name,
         dtype_name(bytes.dtype), dtype_name(dtype));
  }
  if (shape[1] % kElements != 0) {
    fail("{}: tensor {}: config.json makes its rows {} wide, which is no multiple of {}",
         file.name(), name, shape[1], kElements);
  }
  const std::int64_t row_bytes = shape[1] / kElements * group_bytes(dtype);
  if (bytes.shape != std::vector<std::int64_t>{shape[0], row_bytes}) {
    fail("{}: tensor {} has the shape [{}]; config.json makes it [{}, {}]", file.name(), name,
         fmt::join(bytes.shape, ", "), shape[0], row_bytes);
  }
  return {dtype, {shape.begin(), shape.end()}, bytes.bytes};
}

}  // namespace specdec
