#pragma once
#include <cstdint>

#include "kernels/cuda/reduce.h"
#include "kernels/cuda/vector4.h"

// A value and its index as one number, whose order is the order asked for: so the largest such
// number is the answer, whichever threads compare it when. Device code.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// [snippet argmax-key]
// Larger for a larger value, and among equal values for a lower index; largest, with index -1, for
// NaN. In the upper half, a float's bits in an order that unsigned numbers follow: the negative
// ones turned round, the others above them. In the lower half, the index turned round.
__device__ inline unsigned long long key_of(float value, int index) {
  if (value != value) return 0xffffffffull << 32;
  std::uint32_t bits = __float_as_uint(value + 0.0f);  // -0 becomes +0, its equal
  bits = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<unsigned long long>(bits) << 32 | ~static_cast<std::uint32_t>(index);
}
// [end snippet argmax-key]

__device__ inline int index_of(unsigned long long key) {
  return static_cast<int>(~static_cast<std::uint32_t>(key));
}

// The largest key of row[first .. last), for the whole block: every thread gets it. REQUIRES: row +
// first is aligned to 16 bytes, or the row is not at all.
__device__ inline unsigned long long block_max_key(const float* row, int first, int last) {
  constexpr int kLoads = 4;  // of a thread, on their way together
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int whole = is_aligned(row) ? first + (last - first) / 4 * 4 : first;
  unsigned long long best = 0;
  const auto take = [&](float value, int i) { best = Max()(best, key_of(value, i)); };
  // Four loads, and then the comparisons, whose branches no load is moved across: first one number
  // of each load, so that no load is put off until others have been compared.
  int i = first + 4 * thread;
  const int step = 4 * threads;
  for (; i + (kLoads - 1) * step < whole; i += kLoads * step) {
    Vector4 values[kLoads];
#pragma unroll
    for (int n = 0; n < kLoads; ++n) values[n] = load4_aligned(row + i + n * step);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int n = kLoads - 1; n >= 0; --n) take(values[n].at[j], i + n * step + j);
    }
  }
  for (; i < whole; i += step) {
    const Vector4 values = load4_aligned(row + i);
#pragma unroll
    for (int j = 0; j < 4; ++j) take(values.at[j], i + j);
  }
  for (int j = whole + thread; j < last; j += threads) take(row[j], j);
  return block_max(best);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
