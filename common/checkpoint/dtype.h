#pragma once
#include <optional>
#include <string_view>

namespace specdec {

// The element types of the safetensors format. We compute with F32, F16 and BF16 weights. The other
// types are known so that a message can name them.
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
};

// The name in a safetensors header, e.g. "BF16".
std::string_view dtype_name(DType dtype);

// Bits of one element: some types are smaller than a byte.
int dtype_bits(DType dtype);

// The type with that name, or nullopt.
std::optional<DType> dtype_from_name(std::string_view name);

}  // namespace specdec
