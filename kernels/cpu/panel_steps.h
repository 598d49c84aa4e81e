#pragma once
#include <algorithm>
#include <cstddef>
#include <utility>

#include "kernels/cpu/half.h"
#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/sums.h"

// The parts of both matrix products, for few rows (matmul.cpp) and for many (blocked_matmul.cpp).
// Only these files include it. The namespace is unnamed so that the compiler may inline functions.
namespace specdec::cpu {
namespace {

// ---- one step k of a panel as two vectors of floats, exactly

struct PanelStep {
  Floats low, high;  // elements k of the panel's rows 0 .. kLanes - 1, and of the others
};

constexpr std::ptrdiff_t step_bytes(WeightType type) {
  if (is_grouped(type)) return kPanelRows * group_bytes(type);
  return kPanelRows * (type == WeightType::kF32 ? 4 : type == WeightType::kInt8 ? 1 : 2);
}
template <WeightType type>
constexpr std::ptrdiff_t kStepBytes = step_bytes(type);

// The steps of a panel that `width` elements need. A step of q4 or q8 is a whole group.
constexpr int steps_of(WeightType type, int width) {
  return is_grouped(type) ? groups_of(width) : width;
}

inline Floats floats_from_f16(const std::byte* from) {  // kLanes halves
#if defined(__AVX512F__)
  // The mask is all lanes; the form without a mask causes a warning in GCC 12's own header.
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
  for (int i = 0; i < kLanes; ++i) v[i] = static_cast<std::int8_t>(from[i]);
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

// The sums of products of M rows of x with a panel's rows.
template <int M>
struct TileSums {
  Floats low[M] = {}, high[M] = {};
};

// sums += x W^T for one step, where x is [M] with this stride.
template <int M>
inline void add_step(const PanelStep& step, const float* x, std::ptrdiff_t x_stride,
                     TileSums<M>& sums) {
  SPECDEC_UNROLL
  for (int m = 0; m < M; ++m) {
    const Floats value = splat<Floats>(x[m * x_stride]);
    sums.low[m] = multiply_add(step.low, value, sums.low[m]);
    sums.high[m] = multiply_add(step.high, value, sums.high[m]);
  }
}

// sums += x W^T over `steps` steps, by fused multiply-adds in the order of steps. Calls
// prefetch_step() once per step.
template <WeightType type, int M, typename PrefetchStep>
inline void add_steps(const std::byte* panel,                   // [steps][kPanelRows]
                      const float* x, std::ptrdiff_t x_stride,  // [M, steps]
                      int steps, const PrefetchStep& prefetch_step, TileSums<M>& sums) {
  for (int k = 0; k < steps; ++k) {
    prefetch_step();
    const PanelStep step = load_step<type>(panel);
    panel += kStepBytes<type>;
    add_step(step, x + k, x_stride, sums);
  }
}

// ---- groups of q4 and q8

// [snippet for-group]
// 16^k: what step k of a word is multiplied by, because its bits stay where they are.
constexpr float power_of_step(int k) { return static_cast<float>(1u << 4 * k); }

// The integers q of step k of a word, times 16^k. Only the last step needs the sign bit, and an
// unsigned conversion, which takes longer on some processors.
inline Floats step_of_words(Words words, int k) {
  const Words step = words & (15u << 4 * k);
  if (k == PanelGroup::kInWord - 1) return __builtin_convertvector(step, Floats);
  return __builtin_convertvector(std::bit_cast<Ints>(step), Floats);
}

// Calls use(step, k, g) for each step k of `count` neighbouring groups g, one step of each in turn.
// The step has its integers times power_of_step(k).
template <int count, typename Use>
[[gnu::always_inline]] inline void for_groups(const PanelGroup* groups, const Use& use) {
  for (int first = 0; first < kGroupElements; first += PanelGroup::kInWord) {
    Words low[count], high[count];
    for (int g = 0; g < count; ++g) {
      std::memcpy(&low[g], groups[g].words[0][first / PanelGroup::kInWord], sizeof low[g]);
      std::memcpy(&high[g], groups[g].words[1][first / PanelGroup::kInWord], sizeof high[g]);
    }
    SPECDEC_UNROLL
    for (int k = 0; k < PanelGroup::kInWord; ++k) {
      SPECDEC_UNROLL
      for (int g = 0; g < count; ++g) {
        use(PanelStep{step_of_words(low[g], k), step_of_words(high[g], k)}, first + k, g);
      }
    }
  }
}
// [end snippet for-group]

// Of x over a group, in the order of plain.cpp.
inline float sum_of_group(const float* x) {  // [kGroupElements]
  PartialSums sums;
  SPECDEC_UNROLL
  for (int i = 0; i < kGroupElements / kLanes; ++i) {
    sums.part[i % kSumVectors] += load(x + i * kLanes);
  }
  return tree_sum(fold(sums));
}

inline PanelStep load_halves(const std::uint16_t* halves) {  // [kPanelRows] binary16
  return load_step<WeightType::kF16>(reinterpret_cast<const std::byte*>(halves));
}

// x: [groups x kGroupElements], of which it writes the sum of each group. Then it divides each
// element by the power of its step.
inline void prepare_for_groups(float* x, int groups, float* x_sums) {
  for (int g = 0; g < groups; ++g, x += kGroupElements) {
    x_sums[g] = sum_of_group(x);
    SPECDEC_UNROLL
    for (int k = 0; k < kGroupElements; ++k) x[k] /= power_of_step(k % PanelGroup::kInWord);
  }
}

// sums += scales * chains + minimums * x_sums, where x_sums has the sum of each row of x over the
// group.
template <int M>
inline void add_group(const PanelGroup& group, const TileSums<M>& chains,  //
                      const float* x_sums, std::ptrdiff_t stride,          // [M]
                      TileSums<M>& sums) {
  const PanelStep scales = load_halves(group.scales), minimums = load_halves(group.minimums);
  SPECDEC_UNROLL
  for (int m = 0; m < M; ++m) {
    const Floats sum = splat<Floats>(x_sums[m * stride]);
    sums.low[m] = multiply_add(scales.low, chains.low[m], sums.low[m]);
    sums.high[m] = multiply_add(scales.high, chains.high[m], sums.high[m]);
    sums.low[m] = multiply_add(minimums.low, sum, sums.low[m]);
    sums.high[m] = multiply_add(minimums.high, sum, sums.high[m]);
  }
}

// Groups of q4 whose chains take turns, for M rows. A chain waits for its own last sum, so few
// chains would keep the multipliers waiting.
template <int M>
constexpr int kGroupsInTurn = M <= (kRegisters < 32 ? 1 : 3) ? 2 : 1;

// sums += x W^T over `width` elements, group by group, where x is PreparedRows. Calls
// prefetch_group() once per group. A shorter last group is multiplied with zeros, which changes
// nothing: its last q are 0, too.
template <int M, typename PrefetchGroup>
inline void add_groups(const PanelGroup* groups, const float* x,
                       std::ptrdiff_t x_stride,  // [M, width]
                       int width, const PrefetchGroup& prefetch_group, TileSums<M>& sums) {
  const int groups_of_row = groups_of(width);
  const float* const x_sums = x + groups_of_row * kGroupElements;
  const auto add = [&]<int count>(std::integral_constant<int, count>, int first) {
    TileSums<M> chains[count];
    for_groups<count>(groups + first, [&](const PanelStep& step, int k, int g) {
      if (k == kGroupElements / count * g) prefetch_group();  // not all at once
      add_step(step, x + (first + g) * kGroupElements + k, x_stride, chains[g]);
    });
    for (int g = 0; g < count; ++g) {
      add_group(groups[first + g], chains[g], x_sums + first + g, x_stride, sums);
    }
  };
  int g = 0;
  for (; g + kGroupsInTurn<M> <= groups_of_row; g += kGroupsInTurn<M>) {
    add(std::integral_constant<int, kGroupsInTurn<M>>(), g);
  }
  for (; g < groups_of_row; ++g) add(std::integral_constant<int, 1>(), g);
}

// sums += scales * chains.
template <int M>
inline void add_group(const PanelGroup8& group, const TileSums<M>& chains, TileSums<M>& sums) {
  const PanelStep scales = load_halves(group.scales);
  SPECDEC_UNROLL
  for (int m = 0; m < M; ++m) {
    sums.low[m] = multiply_add(scales.low, chains.low[m], sums.low[m]);
    sums.high[m] = multiply_add(scales.high, chains.high[m], sums.high[m]);
  }
}

// The same for groups of q8 and x itself. REQUIRES: whole groups.
template <int M, typename PrefetchGroup>
inline void add_groups(const PanelGroup8* groups, const float* x,
                       std::ptrdiff_t x_stride,  // [M, width]
                       int width, const PrefetchGroup& prefetch_group, TileSums<M>& sums) {
  for (int k = 0; k < width; k += kGroupElements, ++groups) {
    prefetch_group();
    TileSums<M> chains;
    add_steps<WeightType::kInt8, M>(
        groups->steps(), x + k, x_stride, kGroupElements, [] {}, chains);
    add_group(*groups, chains, sums);
  }
}

// Multiplies the sums of an int8 panel by its scales, [kPanelRows].
template <int M>
inline void scale(const float* scales, TileSums<M>& sums) {
  SPECDEC_UNROLL
  for (int m = 0; m < M; ++m) {
    sums.low[m] *= load(scales);
    sums.high[m] *= load(scales + kLanes);
  }
}

template <int M>
inline void store_sums(const TileSums<M>& sums, float* y, std::ptrdiff_t y_stride) {
  SPECDEC_UNROLL
  for (int m = 0; m < M; ++m) {  // y: [M, kPanelRows]
    store(y + m * y_stride, sums.low[m]);
    store(y + m * y_stride + kLanes, sums.high[m]);
  }
}

// How many parts of up to `most` rows there are.
constexpr int parts_of(int rows, int most) { return (rows + most - 1) / most; }

// Calls job(first, count) for `parts` parts of about the same number of rows.
template <typename Job>
void for_parts(int rows, int parts, const Job& job) {
  for (int part = 0; part < parts; ++part) {
    const int first = rows * part / parts;
    job(first, rows * (part + 1) / parts - first);
  }
}

}  // namespace
}  // namespace specdec::cpu
