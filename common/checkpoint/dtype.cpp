#include "common/checkpoint/dtype.h"

#include <algorithm>
#include <array>

#include "common/base/check.h"

namespace specdec {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
  int bits;  // 0: in groups
};

// In the order of the enumeration, which is also the reference format's order: a writer that sorts
// by this order, descending, starts every tensor aligned to its elements.
constexpr auto kRows = std::to_array<DTypeRow>({
    {DType::kBool, "BOOL", 8},      {DType::kF4, "F4", 4},          {DType::kF6E2M3, "F6_E2M3", 6},
    {DType::kF6E3M2, "F6_E3M2", 6}, {DType::kU8, "U8", 8},          {DType::kI8, "I8", 8},
    {DType::kF8E5M2, "F8_E5M2", 8}, {DType::kF8E4M3, "F8_E4M3", 8}, {DType::kF8E8M0, "F8_E8M0", 8},
    {DType::kI16, "I16", 16},       {DType::kU16, "U16", 16},       {DType::kF16, "F16", 16},
    {DType::kBF16, "BF16", 16},     {DType::kI32, "I32", 32},       {DType::kU32, "U32", 32},
    {DType::kF32, "F32", 32},       {DType::kC64, "C64", 64},       {DType::kF64, "F64", 64},
    {DType::kI64, "I64", 64},       {DType::kU64, "U64", 64},       {DType::kQ4_1, "Q4_1", 0},
    {DType::kQ8_0, "Q8_0", 0},
});

const DTypeRow& row(DType dtype) {
  const DTypeRow& result = kRows.at(static_cast<std::size_t>(dtype));
  SPECDEC_CHECK(result.dtype == dtype, "a table that follows the enumeration");
  return result;
}

}  // namespace

std::string_view dtype_name(DType dtype) { return row(dtype).name; }

int dtype_bits(DType dtype) {
  SPECDEC_CHECK(!is_grouped(dtype), "a type of single elements, not {}", dtype_name(dtype));
  return row(dtype).bits;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  const auto* found = std::ranges::find(kRows, name, &DTypeRow::name);
  const bool is_known = found != kRows.end() && !is_grouped(found->dtype);
  return is_known ? std::optional(found->dtype) : std::nullopt;
}

}  // namespace specdec
