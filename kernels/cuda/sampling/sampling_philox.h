#pragma once
#include <cstdint>

#include "kernels/cuda/runtime.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// What a draw decides; the numbers are those of common/sampling/uniform.h.
enum DrawPurpose : std::uint32_t {
  kDrawAccept = 1,
  kDrawResample = 2,
  kDrawTarget = 3,
  kDrawRace = 4,
};

__host__ __device__ inline std::uint32_t low_word(std::uint64_t x) { return x; }
__host__ __device__ inline std::uint32_t high_word(std::uint64_t x) { return x >> 32; }

// The first two words of Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011). A round multiplies two words of the counter by constants, and mixes the upper
// halves with the other two words and the key.
struct DrawnWords {
  std::uint32_t first, second;
};
__host__ __device__ inline DrawnWords philox(std::uint64_t seed, int position,
                                             std::uint32_t purpose, int index) {
  std::uint32_t key0 = low_word(seed), key1 = high_word(seed);
  std::uint32_t a = position, b = purpose, c = index, d = 0;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t from_a = std::uint64_t{0xD2511F53} * a;
    const std::uint64_t from_c = std::uint64_t{0xCD9E8D57} * c;
    a = high_word(from_c) ^ b ^ key0;
    b = low_word(from_c);
    c = high_word(from_a) ^ d ^ key1;
    d = low_word(from_a);
    key0 += 0x9E3779B9;  // the golden ratio
    key1 += 0xBB67AE85;  // sqrt(3) - 1
  }
  return {a, b};
}

// The random numbers in [0, 1) of common/sampling/uniform.h, bit for bit.
__host__ __device__ inline double uniform(std::uint64_t seed, int position, std::uint32_t purpose,
                                          int index = 0) {
  const DrawnWords drawn = philox(seed, position, purpose, index);
  return (drawn.first >> 5) * 0x1p-27 + (drawn.second >> 6) * 0x1p-53;
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
