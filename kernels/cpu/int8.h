#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/ops.h"

namespace specdec::cpu {

// Quantises rows of a checkpoint to int8 with one scale per row, by the rule of WeightFormat::kInt8
// (ops.h). type: kF32, kF16 or kBF16; from: elements at any alignment.

// The scale of a row of `count` elements.
float int8_scale(WeightType type, const std::byte* from, int count);

// q = some elements of a row, or all of them, divided by its scale. q: [count], undefined if the
// scale is NaN.
void quantize(WeightType type, const std::byte* from, int count, float scale, std::int8_t* q);

}  // namespace specdec::cpu
