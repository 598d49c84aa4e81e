#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/kv_types.h"
#include "tests/unit/kernels/cpu/cpu_test_support.h"

namespace specdec {

// The bytes of a cache of this type that holds these rows, slot after slot.
inline std::vector<std::byte> stored(const TestRows& rows, KvType type) {
  std::vector<std::byte> bytes;
  for (int r = 0; r < rows.rows(); ++r) {
    for (int i = 0; i < rows.width(); ++i) {
      std::byte number[sizeof(float)];
      const std::uint16_t half = cpu::bf16_from_float(rows.row(r)[i]);
      std::memcpy(number, rows.row(r) + i, sizeof number);
      if (type == KvType::kBF16) std::memcpy(number, &half, sizeof half);
      bytes.insert(bytes.end(), number, number + element_size(type));
    }
  }
  return bytes;
}

}  // namespace specdec
