#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/half.h"
#include "kernels/ops.h"

namespace specdec::cpu {

// Quantises rows of a checkpoint by the rules of WeightFormat (ops.h). type: kF32, kF16 or kBF16;
// from: elements at any alignment.

// The scale of a row of `count` elements as int8.
float int8_scale(WeightType type, const std::byte* from, int count);

// q = some elements of a row, or all of them, divided by its scale. q: [count], undefined if the
// scale is NaN.
void quantize(WeightType type, const std::byte* from, int count, float scale, std::int8_t* q);

// kGroupElements elements of a row in four bits each; the layout is that of GGUF's Q4_1.
struct Q4Group {
  std::uint16_t scale = 0, minimum = 0;  // binary16
  std::array<std::uint8_t, kGroupElements / 2> pairs =
      {};  // element i in the low half of pairs[i],
           // element kGroupElements / 2 + i in its upper half

  std::uint8_t q(int i) const {
    return i < kGroupElements / 2 ? pairs[i] & 15u : pairs[i - kGroupElements / 2] >> 4;
  }
  // As float32. scale * q is exact there, so this is rounded once.
  float at(int i) const {
    return float_from_f16(scale) * static_cast<float>(q(i)) + float_from_f16(minimum);
  }
};
static_assert(sizeof(Q4Group) == 20);

// The same in eight bits, without a minimum; the layout is that of GGUF's Q8_0.
struct Q8Group {
  std::uint16_t scale = 0;  // binary16
  std::array<std::int8_t, kGroupElements> q = {};

  // As float32, exactly.
  float at(int i) const { return float_from_f16(scale) * static_cast<float>(q[i]); }
};
static_assert(sizeof(Q8Group) == 34);

// How many groups a row of `count` elements has.
constexpr int groups_of(int count) { return (count + kGroupElements - 1) / kGroupElements; }

// REQUIRES: is_grouped(type).
constexpr std::size_t group_bytes(WeightType type) {
  return type == WeightType::kQ4 ? sizeof(Q4Group) : sizeof(Q8Group);
}

// groups: [groups_of(count)]. Elements past the end of the row are 0 times the scale.
void quantize_q4(WeightType type, const std::byte* from, int count, Q4Group* groups);

}  // namespace specdec::cpu
