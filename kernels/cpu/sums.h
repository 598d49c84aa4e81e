#pragma once
#include <utility>

#include "kernels/cpu/vector.h"

namespace specdec::cpu {

// Sums in the order of plain.cpp: lane l of 16 partial sums adds the terms l, l + 16, ...; a tree
// adds lanes l and l + 8, then l and l + 4, l + 2, l + 1.
inline constexpr int kPartialSums = 16;
inline constexpr int kSumVectors = kPartialSums / kLanes;

struct PartialSums {
  Floats part[kSumVectors] = {};
};

// The tree's levels between vectors.
inline Floats fold(PartialSums sums) {
  SPECDEC_UNROLL
  for (int half = kSumVectors / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) sums.part[i] += sums.part[i + half];
  }
  return sums.part[0];
}

using LaneNumbers = std::make_integer_sequence<int, kLanes>;

// Lane i of the result is lane from[i] of a, or of b if from[i] >= kLanes.
template <int... from>
inline Floats take_lanes(Floats a, Floats b, std::integer_sequence<int, from...>) {
#if defined(__clang__)
  return __builtin_shufflevector(a, b, from...);
#else
  return __builtin_shuffle(a, b, Ints{from...});
#endif
}

// a and b consist of blocks of 2 * half lanes. The result takes one half of each block, from a and
// b alternately. If `other` is 0, it takes the lower halves of a and the upper halves of b, which
// keep their lanes; if it is 1, the other halves.
template <int half, int other, int... i>
inline Floats take_halves(Floats a, Floats b, std::integer_sequence<int, i...>) {
#if defined(__AVX512F__)
  // If each lane keeps its place, use a blend: more ports execute it than a shuffle.
  if constexpr (other == 0) {
    constexpr unsigned from_b = ((i / half % 2 != 0 ? 1u << i : 0u) | ...);
    return _mm512_mask_mov_ps(a, from_b, b);
  }
#endif
  return take_lanes(
      a, b,
      std::integer_sequence<int, (i / (2 * half) * (2 * half) + i % half +
                                  (i / half + other) % 2 * half + i / half % 2 * kLanes)...>());
}

// One level of the tree inside vectors: adds the halves of every block, for two vectors at once.
// One of the two operands is a blend and one a shuffle, which saves a shuffle.
template <int half>
inline Floats add_halves(Floats a, Floats b) {
  return take_halves<half, 0>(a, b, LaneNumbers()) + take_halves<half, 1>(a, b, LaneNumbers());
}

// Levels of the tree for `count` vectors at once, from blocks of 2 * half lanes on, until one
// vector is left. v: [count], overwritten. With kLanes vectors, this is the whole tree: lane i of
// the result is the tree sum of v[i].
template <int half = kLanes / 2, int count = kLanes>
inline Floats tree_sums(Floats* v) {
  if constexpr (count > 1) {
    SPECDEC_UNROLL
    for (int i = 0; i < count / 2; ++i) v[i] = add_halves<half>(v[i], v[i + count / 2]);
    return tree_sums<half / 2, count / 2>(v);
  } else {
    return v[0];
  }
}

// The tree sum of one vector's lanes.
template <int half = kLanes / 2>
inline float tree_sum(Floats v) {
  if constexpr (half > 0) {
    return tree_sum<half / 2>(add_halves<half>(v, v));
  } else {
    return v[0];
  }
}

// The largest lane. REQUIRES: no NaN.
template <int half = kLanes / 2>
inline float largest_lane(Floats v) {
  if constexpr (half > 0) {
    const Floats other = take_halves<half, 1>(v, v, LaneNumbers());
    return largest_lane<half / 2>(larger(v, other));
  } else {
    return v[0];
  }
}

}  // namespace specdec::cpu
