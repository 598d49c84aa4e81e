#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/kv_cache.h"

namespace specdec {

// Bytes that are NaN as float32 and as bfloat16, in every layer.
inline void poison_slot(const KvMemory& memory, int slot) {
  const std::size_t bytes = memory.shape().key_bytes();
  const std::vector<std::uint16_t> nans(bytes / sizeof(std::uint16_t), 0x7fff);
  for (int i = 0; i < memory.shape().n_layers; i++) {
    for (void* rows : {memory.layer(i).keys, memory.layer(i).values}) {
      memory.backend().upload(
          nans.data(), static_cast<std::byte*>(rows) + static_cast<std::size_t>(slot) * bytes,
          bytes);
    }
  }
}

// Whatever lies in a cache's memory must not matter until it is written: fill it with NaN.
inline void poison(const KvCache& cache) {
  const KvMemory& memory = cache.memory();
  for (int slot = 0; slot < memory.slots(); slot++) poison_slot(memory, slot);
}

}  // namespace specdec
