#pragma once
#include <optional>
#include <string_view>

namespace specdec {

// The element types of the safetensors format. We compute with F32, F16 and BF16 weights. The other
// types are known so that a message can name them. The last two are no types of the format: a
// matrix of groups, which a file holds as bytes (grouped_tensor.h).
enum class DType {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
  kQ4_1,
  kQ8_0,
};

// The name in a safetensors header, e.g. "BF16", or GGUF's.
std::string_view dtype_name(DType dtype);

// Bits of one element: some types are smaller than a byte. REQUIRES: no groups.
int dtype_bits(DType dtype);

constexpr bool is_grouped(DType dtype) { return dtype == DType::kQ4_1 || dtype == DType::kQ8_0; }

// The format's type with that name, or nullopt.
std::optional<DType> dtype_from_name(std::string_view name);

}  // namespace specdec
