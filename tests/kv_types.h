#pragma once
#include <string>

#include <gtest/gtest.h>

#include "kernels/cpu/half.h"
#include "kernels/kv_layer.h"

namespace specdec {

inline constexpr KvType kKvTypes[] = {KvType::kF32, KvType::kBF16};

// For the names of tests.
inline std::string kv_type_name(const ::testing::TestParamInfo<KvType>& info) {
  return info.param == KvType::kF32 ? "F32" : "BF16";
}

// What a cache of the type holds of a number.
inline float held(float number, KvType type) {
  return type == KvType::kF32 ? number : cpu::float_from_bf16(cpu::bf16_from_float(number));
}

}  // namespace specdec
