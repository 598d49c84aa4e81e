#include "common/checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "common/base/error.h"
#include "common/base/json.h"

namespace specdec {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // the reference implementation's limit

// The header's JSON, which follows the header's length.
std::string_view header_text(std::span<const std::byte> file, const std::string& name) {
  if (file.size() < kLengthBytes) {
    fail("{}: {} bytes is too short for a safetensors file", name, file.size());
  }
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8 | std::to_integer<std::uint64_t>(file[i]);
  }
  if (length > kLongestHeader) {
    fail(
        "{}: a header of {} bytes is longer than the format allows ({}): is this a safetensors "
        "file?",
        name, length, kLongestHeader);
  }
  if (length > file.size() - kLengthBytes) {
    fail("{}: the header should have {} bytes, but the file ends after {}: it is truncated", name,
         length, file.size() - kLengthBytes);
  }
  return {reinterpret_cast<const char*>(file.data()) + kLengthBytes, length};
}

std::uint64_t unsigned_value(const Json& value, const std::string& tensor_name, const char* what) {
  if (!value.is_number_unsigned()) {
    fail("{}: {} is {}; it must be an integer, 0 or more", tensor_name, what, excerpt(value));
  }
  return value.get<std::uint64_t>();
}

std::vector<std::int64_t> parse_shape(const Json& value, const std::string& tensor_name) {
  if (!value.is_array()) {
    fail("{}: shape is {}; it must be a list", tensor_name, excerpt(value));
  }
  std::vector<std::int64_t> shape;
  for (const Json& dimension : value) {
    const std::uint64_t size = unsigned_value(dimension, tensor_name, "a dimension of shape");
    if (size > std::numeric_limits<std::int64_t>::max()) {
      fail("{}: shape {} is too large", tensor_name, excerpt(value));
    }
    shape.push_back(size);
  }
  return shape;
}

TensorEntry parse_entry(const std::string& tensor_name, const Json& value,
                        const std::string& file_name) {
  const std::string where = fmt::format("{}: tensor {}", file_name, tensor_name);
  const JsonObject fields(value, where);
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!fields.has(key)) fields.fail_missing(key);
  }
  TensorEntry tensor;
  tensor.name = tensor_name;
  const std::string dtype = *fields.string("dtype");
  if (const auto known = dtype_from_name(dtype)) {
    tensor.dtype = *known;
  } else {
    fail("{}: the dtype {} is unknown", where, excerpt(dtype));
  }
  tensor.shape = parse_shape(*fields.find("shape"), where);
  const Json& offsets = *fields.find("data_offsets");
  if (!offsets.is_array() || offsets.size() != 2) fields.fail_type("data_offsets", "[begin, end]");
  tensor.begin = unsigned_value(offsets[0], where, "the begin of data_offsets");
  tensor.end = unsigned_value(offsets[1], where, "the end of data_offsets");
  if (tensor.end < tensor.begin) {
    fail("{}: data_offsets end at {}, before they begin at {}", where, tensor.end, tensor.begin);
  }
  if (const std::uint64_t bytes = tensor_bytes(tensor.dtype, tensor.shape, where);
      tensor.end - tensor.begin != bytes) {
    fail("{}: data_offsets span {} bytes, but its shape and dtype need {}", where,
         tensor.end - tensor.begin, bytes);
  }
  return tensor;
}

// [snippet check-ranges]
// Throws Error unless tensors follow one another without overlap or hole, and the last one ends the
// file.
void check_ranges(const SafetensorsHeader& header, std::uint64_t data_bytes,
                  const std::string& name) {
  std::uint64_t position = 0;
  for (const TensorEntry& tensor : header.tensors) {
    if (tensor.begin != position) {
      fail("{}: tensor {} begins at {}, where {} is expected: {}", name, tensor.name, tensor.begin,
           position, tensor.begin < position ? "tensors overlap" : "there is a hole in the data");
    }
    position = tensor.end;
  }
  if (position > data_bytes) {
    fail("{}: the tensors need {} bytes, but the file holds {}: it is truncated", name, position,
         data_bytes);
  }
  if (position < data_bytes) {
    fail("{}: {} bytes follow the last tensor; the file should end there", name,
         data_bytes - position);
  }
}
// [end snippet check-ranges]

std::map<std::string, std::string> parse_metadata(const Json& value, const std::string& name) {
  const JsonObject fields(value, fmt::format("{}: __metadata__", name));
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) fields.fail_type(key, "a string");
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

}  // namespace

std::int64_t TensorView::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::uint64_t tensor_bytes(DType dtype, std::span<const std::int64_t> shape,
                           const std::string& where) {
  std::uint64_t bits = dtype_bits(dtype);
  for (const std::int64_t dimension : shape) {
    if (__builtin_mul_overflow(bits, dimension, &bits)) {
      fail("{}: its shape has more elements than 64 bits can count", where);
    }
  }
  if (bits % 8 != 0) fail("{}: its {} elements do not fill whole bytes", where, dtype_name(dtype));
  return bits / 8;
}

SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const std::string& name) {
  const std::string_view text = header_text(file, name);
  if (!text.starts_with('{')) {
    fail("{}: the header does not begin with '{{': is this a safetensors file?", name);
  }
  const Json root = parse_json(text, fmt::format("{}: header", name));
  SafetensorsHeader header;
  header.data_start = kLengthBytes + text.size();
  for (const auto& [key, value] : root.items()) {
    if (key == "__metadata__") {
      header.metadata = parse_metadata(value, name);
    } else {
      header.tensors.push_back(parse_entry(key, value, name));
    }
  }
  std::ranges::sort(header.tensors, {}, [](const TensorEntry& tensor) {
    return std::pair(tensor.begin, tensor.end);  // an empty tensor before one with the same begin
  });
  check_ranges(header, file.size() - header.data_start, name);
  return header;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : name_(path.string()), file_(path), header_(parse_safetensors(file_.bytes(), name_)) {
  for (std::size_t i = 0; i < header_.tensors.size(); ++i) by_name_[header_.tensors[i].name] = i;
}

TensorView SafetensorsFile::tensor(std::string_view tensor_name) const {
  const auto found = by_name_.find(tensor_name);
  if (found == by_name_.end()) fail("{}: the tensor {} is missing", name_, tensor_name);
  const TensorEntry& entry = header_.tensors[found->second];
  return {entry.dtype, entry.shape,
          file_.bytes().subspan(header_.data_start + entry.begin, entry.end - entry.begin)};
}

}  // namespace specdec
