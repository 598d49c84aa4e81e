#pragma once
#include <cstdint>

#include "kernels/cuda/runtime.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// What a draw decides: the numbers of common/sampling/uniform.h.
enum DrawPurpose : std::uint32_t {
  kDrawAccept = 1,
  kDrawResample = 2,
  kDrawTarget = 3,
  kDrawRace = 4,
};

// The first two words of Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011). A round multiplies two words of the counter by constants, and mixes the upper
// halves with the other two words and the key.
struct DrawnWords {
  std::uint32_t first, second;
};
__host__ __device__ inline DrawnWords philox(std::uint64_t seed, int position,
                                             std::uint32_t purpose, int index) {
  auto key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
  auto a = static_cast<std::uint32_t>(position), b = purpose;
  auto c = static_cast<std::uint32_t>(index), d = std::uint32_t{0};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t from_a = std::uint64_t{0xD2511F53} * a;
    const std::uint64_t from_c = std::uint64_t{0xCD9E8D57} * c;
    a = static_cast<std::uint32_t>(from_c >> 32) ^ b ^ key0;
    b = static_cast<std::uint32_t>(from_c);
    c = static_cast<std::uint32_t>(from_a >> 32) ^ d ^ key1;
    d = static_cast<std::uint32_t>(from_a);
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
