#pragma once
#include <cstddef>
#include <limits>
#include <vector>

#include "common/kv_cache.h"

namespace specdec {

// Whatever lies in a cache's memory must not matter until it is written: fill it with NaN.
inline void poison(const KvCache& cache) {
  const KvMemory& memory = cache.memory();
  const std::vector<float> nans(
      static_cast<std::size_t>(memory.slots()) * static_cast<std::size_t>(memory.shape().width()),
      std::numeric_limits<float>::quiet_NaN());
  for (int i = 0; i < memory.shape().n_layers; i++) {
    memory.backend().upload(nans.data(), memory.layer(i).keys, nans.size() * sizeof(float));
    memory.backend().upload(nans.data(), memory.layer(i).values, nans.size() * sizeof(float));
  }
}

}  // namespace specdec
