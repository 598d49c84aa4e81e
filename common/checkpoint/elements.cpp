#include "common/checkpoint/elements.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "common/base/check.h"
#include "common/checkpoint/grouped_tensor.h"

namespace specdec {
namespace {

// Reads a T at any address: the format promises no alignment.
template <typename T>
T load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

double from_f16(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  const double sign = bits >> 15 != 0 ? -1 : 1;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  if (exponent < 31) return sign * std::ldexp(1024 + mantissa, exponent - 25);
  return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                       : std::numeric_limits<double>::quiet_NaN();
}

// Element i of a matrix whose rows are whole groups of 32, at any address. A group begins with its
// scale; Q4_1 goes on with its minimum and 16 bytes, whose lower halves are elements 0 .. 15, and
// whose upper halves are the others; Q8_0 with 32 integers.
double from_groups(DType dtype, const std::byte* data, std::size_t i) {
  const std::size_t group = i / 32, in_group = i % 32;
  const std::byte* of_group = data + group * group_bytes(dtype);
  const double scale = from_f16(load<std::uint16_t>(of_group));
  if (dtype == DType::kQ8_0) return scale * load<std::int8_t>(of_group + 2 + in_group);
  const double minimum = from_f16(load<std::uint16_t>(of_group + 2));
  const int pair = load<std::uint8_t>(of_group + 4 + in_group % 16);
  return scale * (in_group < 16 ? pair & 15 : pair >> 4) + minimum;
}

}  // namespace

bool is_readable(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kF16 ||
         dtype == DType::kBF16 || is_grouped(dtype);
}

double tensor_element(const TensorView& tensor, std::size_t i) {
  const std::byte* data = tensor.bytes.data();
  switch (tensor.dtype) {
    case DType::kF64:
      return load<double>(data + 8 * i);
    case DType::kF32:
      return load<float>(data + 4 * i);
    case DType::kF16:
      return from_f16(load<std::uint16_t>(data + 2 * i));
    case DType::kQ4_1:
    case DType::kQ8_0:
      return from_groups(tensor.dtype, data, i);
    default:
      return std::bit_cast<float>(std::uint32_t{load<std::uint16_t>(data + 2 * i)} << 16);
  }
}

std::vector<float> to_float32(const TensorView& tensor) {
  SPECDEC_CHECK(is_readable(tensor.dtype), "a type that we read, not {}", dtype_name(tensor.dtype));
  std::vector<float> result(tensor.elements());
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = tensor_element(tensor, i);
  }
  return result;
}

}  // namespace specdec
