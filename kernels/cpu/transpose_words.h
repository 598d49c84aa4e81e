#pragma once
#include <cstddef>
#include <utility>

#include "kernels/cpu/vector.h"

namespace specdec::cpu {

// Exchanges the upper blocks of kStep lanes of a with the lower blocks of b.
template <int kStep, std::size_t... kLane>
void exchange_blocks(Words& a, Words& b, std::index_sequence<kLane...>) {
  const Words low =
      __builtin_shufflevector(a, b, (kLane & kStep ? kLanes + kLane - kStep : kLane)...);
  b = __builtin_shufflevector(a, b, (kLane & kStep ? kLanes + kLane : kLane + kStep)...);
  a = low;
}

// Transposes a square of kLanes x kLanes words: exchanges blocks of half its size, then blocks of
// half that size within each, down to single words.
template <int kStep = kLanes / 2>
void transpose_words(Words (&rows)[kLanes]) {
  SPECDEC_UNROLL
  for (int i = 0; i < kLanes; ++i) {
    if ((i & kStep) == 0) {
      exchange_blocks<kStep>(rows[i], rows[i + kStep], std::make_index_sequence<kLanes>());
    }
  }
  if constexpr (kStep > 1) transpose_words<kStep / 2>(rows);
}

}  // namespace specdec::cpu
