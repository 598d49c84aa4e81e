#include "stages/09_self_drafting/head_file.h"

#include <fmt/ranges.h>

#include "common/base/error.h"
#include "common/base/mapped_file.h"
#include "common/checkpoint/elements.h"

namespace specdec {

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
  if (!is_readable(tensor.dtype) || tensor.dtype == DType::kF64) {
    fail("{}: tensor {} is of type {}; supported are BF16, F16 and F32", file_.name(), name,
         dtype_name(tensor.dtype));
  }
  return tensor;
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

void HeadFile::refuse_leftovers() const {
  for (const TensorEntry& tensor : file_.header().tensors) {
    if (taken_.contains(tensor.name)) continue;
    fail("{}: tensor {} belongs to no heads that we can compute", file_.name(), tensor.name);
  }
}

}  // namespace specdec
