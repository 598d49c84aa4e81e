#pragma once
#include <cstdint>

#include "kernels/cuda/reduce.h"
#include "kernels/cuda/vector4.h"

// Combines a value and its index into one number, so that the largest number is the argmax in
// whatever order threads compare them. Device code.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// [snippet argmax-key]
// Keys order by value, and equal values by descending index, so the lower index wins. NaN has the
// largest key, with index -1. The upper half is the float's bits, adjusted so that unsigned order
// equals float order: negative ones are inverted, the others get the top bit. The lower half is the
// inverted index.
__device__ inline unsigned long long key_of(float value, int index) {
  if (value != value) return 0xffffffffull << 32;
  std::uint32_t bits = __float_as_uint(value + 0.0f);  // -0 becomes +0, which is equal
  bits = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return std::uint64_t{bits} << 32 | ~static_cast<std::uint32_t>(index);
}
// [end snippet argmax-key]

__device__ inline int index_of(unsigned long long key) { return static_cast<int>(~key); }

// The largest key of row[first .. last), for every thread of the block. REQUIRES: if row is aligned
// to 16 bytes, so is row + first.
__device__ inline unsigned long long block_max_key(const float* row, int first, int last) {
  constexpr int kLoads = 4;  // of a thread, in flight together
  const int thread = threadIdx.x, threads = blockDim.x;
  const int whole = is_aligned(row) ? first + (last - first) / 4 * 4 : first;
  unsigned long long best = 0;
  const auto take = [&](float value, int i) { best = Max()(best, key_of(value, i)); };
  // Four loads, then the comparisons. The compiler moves no load across their branches, so one
  // number of each load is compared first: no load is delayed until the others have been compared.
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
