#include <algorithm>
#include <array>
#include <utility>

#include "kernels/cpu/half.h"
#include "kernels/cpu/packed_matrix.h"

namespace specdec::cpu {
namespace {

// Rows of x that share one pass over a panel: their sums, two vectors a row, stay in registers.
#if defined(__AVX2__) && !defined(__AVX512F__)
constexpr int kMaxTileRows = 6;  // 16 registers
#else
constexpr int kMaxTileRows = 8;  // 32 registers
#endif

// Prefill takes x in blocks, because a block is read again for every panel and must stay in a
// cache.
constexpr int kBlockRows = 256;

// ---- one step k of a panel as two vectors of floats, exactly

struct PanelStep {
  Floats low, high;  // elements k of the panel's rows 0 .. kLanes - 1, and of the others
};

template <WeightType type>
constexpr std::ptrdiff_t kStepBytes = kPanelRows*(type == WeightType::kF32    ? 4
                                                  : type == WeightType::kInt8 ? 1
                                                                              : 2);

inline Floats floats_from_f16(const std::byte* from) {  // kLanes halves
#if defined(__AVX512F__)
  // All lanes; GCC 12's header of the form without a mask sets off its own warning.
  return _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(__AVX2__)
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#elif defined(__aarch64__)
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(reinterpret_cast<const std::uint16_t*>(from))));
#else
  Floats v;
  for (int i = 0; i < kLanes; ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, from + 2 * i, sizeof bits);
    v[i] = float_from_f16(bits);
  }
  return v;
#endif
}

inline Floats floats_from_int8(const std::byte* from) {  // kLanes of them
#if defined(__AVX512F__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepi8_epi32(0xffff, bytes));
#elif defined(__AVX2__)
  return _mm256_cvtepi32_ps(
      _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
#elif defined(__aarch64__)
  std::uint32_t bytes;
  std::memcpy(&bytes, from, sizeof bytes);
  const int16x8_t wide = vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(bytes)));
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
#else
  Floats v;
  for (int i = 0; i < kLanes; ++i) v[i] = static_cast<float>(static_cast<std::int8_t>(from[i]));
  return v;
#endif
}

template <WeightType type>
inline PanelStep load_step(const std::byte* from) {
  if constexpr (type == WeightType::kF32) {
    const auto* floats = reinterpret_cast<const float*>(from);
    return {load(floats), load(floats + kLanes)};
  } else if constexpr (type == WeightType::kF16) {
    return {floats_from_f16(from), floats_from_f16(from + kVectorBytes / 2)};
  } else if constexpr (type == WeightType::kInt8) {
    return {floats_from_int8(from), floats_from_int8(from + kVectorBytes / 4)};
  } else {
    Words words;
    std::memcpy(&words, from, sizeof words);
    return {std::bit_cast<Floats>(words << 16), std::bit_cast<Floats>(words & 0xffff0000u)};
  }
}

// ---- M rows of x times one panel

// The hardware prefetcher alone keeps up at one row. The more arithmetic there is between two
// loads, the further ahead one must prefetch, and into the second-level cache, since the first one
// would have lost the line again. (Measured on a Zen 4 with memory at 30 to 60 GB/s; 8 to 24 KiB
// ahead differ by less than the noise.) Addresses behind the matrix do no harm.
template <int M>
inline void prefetch(const std::byte* panel) {
  if constexpr (M < 4) {
    __builtin_prefetch(panel + (6 << 10), /*write=*/0, /*locality=*/3);
  } else {
    __builtin_prefetch(panel + (16 << 10), /*write=*/0, /*locality=*/2);
  }
}

template <WeightType type, int M>
void multiply_tile(const std::byte* panel,  // [K][kPanelRows], and the scales of int8
                   const float* x, std::ptrdiff_t x_stride, int width,  // [M, K]
                   float* y, std::ptrdiff_t y_stride) {                 // [M, kPanelRows]
  Floats low[M] = {}, high[M] = {};
  for (int k = 0; k < width; ++k) {
    for (std::ptrdiff_t line = 0; line < kStepBytes<type>; line += 64) {
      prefetch<M>(panel + line);
    }
    const PanelStep step = load_step<type>(panel);
    panel += kStepBytes<type>;
    SPECDEC_UNROLL
    for (int m = 0; m < M; ++m) {
      const Floats value = splat<Floats>(x[m * x_stride + k]);
      low[m] = multiply_add(step.low, value, low[m]);
      high[m] = multiply_add(step.high, value, high[m]);
    }
  }
  SPECDEC_UNROLL
  for (int m = 0; m < M; ++m) {
    if constexpr (type == WeightType::kInt8) {
      const auto* scales = reinterpret_cast<const float*>(panel);
      low[m] *= load(scales);
      high[m] *= load(scales + kLanes);
    }
    store(y + m * y_stride, low[m]);
    store(y + m * y_stride + kLanes, high[m]);
  }
}

using Tile = void (*)(const std::byte*, const float*, std::ptrdiff_t, int, float*, std::ptrdiff_t);
using Tiles = std::array<Tile, kMaxTileRows + 1>;  // by the number of rows

template <WeightType type>
constexpr Tiles kTilesOf = []<int... M>(std::integer_sequence<int, M...>) {
  return Tiles{nullptr, multiply_tile<type, M + 1>...};
}
(std::make_integer_sequence<int, kMaxTileRows>());

const Tiles& tiles_for(WeightType type) {
  switch (type) {
    case WeightType::kF32:
      return kTilesOf<WeightType::kF32>;
    case WeightType::kF16:
      return kTilesOf<WeightType::kF16>;
    case WeightType::kInt8:
      return kTilesOf<WeightType::kInt8>;
    default:
      return kTilesOf<WeightType::kBF16>;
  }
}

// The last panel may have fewer outputs than a tile writes.
void multiply_part_of_tile(Tile tile, const std::byte* panel, ConstDeviceRows x,  // [M, K]
                           DeviceRows y) {  // [M, < kPanelRows]
  float whole[kMaxTileRows][kPanelRows];
  tile(panel, x.data, x.stride, x.width, whole[0], kPanelRows);
  for (int m = 0; m < y.rows; ++m) std::copy_n(whole[m], y.width, y.row(m));
}

// x: [T, K]; y: [T, up to kPanelRows].
void multiply_panel(const Tiles& tiles, const std::byte* panel, ConstDeviceRows x, DeviceRows y) {
  // As few passes over the panel as possible, and those of about the same number of rows.
  const int passes = (x.rows + kMaxTileRows - 1) / kMaxTileRows;
  for (int pass = 0; pass < passes; ++pass) {
    const int first = x.rows * pass / passes;
    const int count = x.rows * (pass + 1) / passes - first;
    const Tile tile = tiles[static_cast<std::size_t>(count)];
    if (y.width == kPanelRows) {
      tile(panel, x.row(first), x.stride, x.width, y.row(first), y.stride);
    } else {
      multiply_part_of_tile(tile, panel, x.slice(first, count), y.slice(first, count));
    }
  }
}

}  // namespace

// Every output is one chain of fused multiply-adds over k: the lanes of a vector are different
// outputs, and rows and threads never share one. So neither their number nor the vector's width
// can change a bit.
void matmul(ThreadTeam& team, ConstDeviceRows x, const PackedMatrix& weight, DeviceRows y) {
  const Tiles& tiles = tiles_for(weight.type());
  for (int first = 0; first < x.rows; first += kBlockRows) {
    const ConstDeviceRows block = x.slice(first, std::min(kBlockRows, x.rows - first));
    const DeviceRows outputs = y.slice(first, block.rows);
    team.run_stealing(weight.panels(), [&](std::int64_t panel) {
      const int column = static_cast<int>(panel) * kPanelRows;
      const int columns = std::min(kPanelRows, y.width - column);
      multiply_panel(tiles, weight.panel(panel), block, outputs.columns(column, columns));
    });
  }
}

}  // namespace specdec::cpu
