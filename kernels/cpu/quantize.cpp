#include "kernels/cpu/quantize.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/half.h"

namespace specdec::cpu {
namespace {

constexpr int kBlock = 256;  // elements at a time; constant, so that the compiler vectorises
using Block = std::array<float, kBlock>;

// Loads `count` elements and fills the rest of the block with zeros. from: at any alignment.
void load_block(WeightType type, const std::byte* from, int count, Block& block) {
  const std::size_t n = count;
  if (type == WeightType::kF32) {
    block = {};
    std::memcpy(block.data(), from, n * sizeof(float));
    return;
  }
  std::array<std::uint16_t, kBlock> halves = {};
  std::memcpy(halves.data(), from, n * sizeof(std::uint16_t));
  if (type == WeightType::kBF16) {
    for (std::size_t i = 0; i < kBlock; ++i) block[i] = float_from_bf16(halves[i]);
  } else {
    for (std::size_t i = 0; i < kBlock; ++i) block[i] = float_from_f16(halves[i]);
  }
}

// Calls use(block, first, count) for the elements first, first + 1, ... of each block.
template <typename Use>
void for_blocks(WeightType type, const std::byte* from, int count, const Use& use) {
  const std::ptrdiff_t size = type == WeightType::kF32 ? 4 : 2;
  Block block;
  for (int first = 0; first < count; first += kBlock) {
    const int n = std::min(kBlock, count - first);
    load_block(type, from + first * size, n, block);
    use(block, first, n);
  }
}

// Without branches, so that the compiler vectorises.
struct Range {
  float smallest, largest;
  bool holds;  // binary16 does
};

Range range_of(const float* w, int count) {
  Range range{w[0], w[0], true};
  for (int i = 0; i < count; ++i) {
    range.smallest = std::min(range.smallest, w[i]);
    range.largest = std::max(range.largest, w[i]);
    range.holds &= std::abs(w[i]) < 65520.0f;  // false for a NaN
  }
  return range;
}

Q4Group q4_group(const float* w, int count) {
  const Range range = range_of(w, count);
  if (!range.holds) return {.scale = 0x7e00u};  // NaN
  Q4Group group{.scale = f16_from_float((range.largest - range.smallest) / 15.0f),
                .minimum = f16_from_float(range.smallest)};
  const float scale = float_from_f16(group.scale), minimum = float_from_f16(group.minimum);
  if (scale == 0) return group;
  for (int i = 0; i < count; ++i) {
    const float q = std::clamp(std::nearbyint((w[i] - minimum) / scale), 0.0f, 15.0f);
    const int half = i / (kGroupElements / 2);
    group.pairs[i % (kGroupElements / 2)] |=
        static_cast<std::uint8_t>(static_cast<int>(q) << 4 * half);
  }
  return group;
}

}  // namespace

float int8_scale(WeightType type, const std::byte* from, int count) {
  // Without their signs, floats are ordered by their bits, with infinity and NaN last.
  std::uint32_t largest = 0;
  for_blocks(type, from, count, [&](const Block& w, int, int) {
    for (const float x : w) largest = std::max(largest, std::bit_cast<std::uint32_t>(x) << 1 >> 1);
  });
  if (largest >= 0x7f800000u) return std::numeric_limits<float>::quiet_NaN();
  return std::max(std::bit_cast<float>(largest) / 127.0f, std::numeric_limits<float>::min());
}

void quantize(WeightType type, const std::byte* from, int count, float scale, std::int8_t* q) {
  // From 2^23 to 2^24, float32 has only whole numbers: the sum rounds to one, ties to even, and the
  // integer is in its low bits.
  constexpr float kRounder = 0x1.8p23f;
  for_blocks(type, from, count, [&](const Block& w, int first, int n) {
    std::array<std::int8_t, kBlock> rounded;
    for (std::size_t i = 0; i < kBlock; ++i) {
      rounded[i] = static_cast<std::int8_t>(std::bit_cast<std::int32_t>(w[i] / scale + kRounder));
    }
    std::copy_n(rounded.begin(), n, q + first);
  });
}

void quantize_q4(WeightType type, const std::byte* from, int count, Q4Group* groups) {
  static_assert(kBlock % kGroupElements == 0);
  for_blocks(type, from, count, [&](const Block& w, int first, int n) {
    for (int i = 0; i < n; i += kGroupElements) {
      groups[(first + i) / kGroupElements] =
          q4_group(w.data() + i, std::min(kGroupElements, n - i));
    }
  });
}

}  // namespace specdec::cpu
