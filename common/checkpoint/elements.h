#pragma once
#include <cstddef>
#include <vector>

#include "common/checkpoint/safetensors.h"

namespace specdec {

// Whether we can read numbers of that type: F64, F32, F16, BF16, and groups.
bool is_readable(DType dtype);

// Element i of a tensor, exactly. REQUIRES: a readable type, an i below the number of elements.
double tensor_element(const TensorView& tensor, std::size_t i);

// All elements, rounded once: exact for F32, F16, BF16 and Q8_0. REQUIRES: a readable type.
std::vector<float> to_float32(const TensorView& tensor);

}  // namespace specdec
