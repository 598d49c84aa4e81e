#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/cpu/exponential.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/sums.h"
#include "kernels/ops.h"

// Attention over one chunk of positions, for some query heads that read the same keys and values:
// scores, their softmax and the values' sums, while the next chunk is prefetched. Only
// attention.cpp includes this file. The namespace is unnamed so that the compiler may inline
// functions that are called once.
namespace specdec::cpu {
namespace {

// Query heads that share the loads of a key or value, and keys with dot products side by side: as
// many as registers allow, to have enough chains of fused multiply-adds to hide their latency.
constexpr int kMaxTileHeads = kRegisters < 32 ? 1 : 4;
template <int heads>
constexpr int kTileKeys = (heads > 3 ? 4 : 8) / kSumVectors;
constexpr int kTileVectors = 4;  // of a value

// The offsets of a chunk's positions from the first slot, in numbers (elements).
using Chunk = std::array<std::ptrdiff_t, kAttentionChunk>;

// The keys and values of one head at a chunk's positions, stored as T.
template <typename T>
struct HeadChunk {
  const T* keys = nullptr;    // the head's key in slot 0
  const T* values = nullptr;  // the head's value in slot 0
  const Chunk* slots = nullptr;

  const T* key(int j) const { return keys + (*slots)[j]; }
  const T* value(int j) const { return values + (*slots)[j]; }
};

// The softmax of one row and head so far.
struct Running {
  float maximum = std::numeric_limits<float>::lowest();
  float weight_sum = 0.0f;
};

// Prefetches while a chunk of one head is computed, a little with each key and each value, so that
// memory is never idle between chunks.
//
// The second-level cache receives the next chunk, for all heads in the order of their addresses.
// The rows and tiles that share the chunk (turns) each prefetch some of its positions. The first
// turn also prefetches what it reads kNear positions later into the first-level cache, where the
// other turns find it.
template <typename T>
struct Prefetch {
  HeadChunk<T> next;        // of the first head
  std::uint64_t due = 0;    // bit j: this turn prefetches position j
  int head = 0, heads = 1;  // this one, of how many
  HeadChunk<T> now, then;   // this head's chunk, and the one that is computed after it
  bool is_first_turn = false;
  int head_dim = 0;

  void key(int j) const {
    if (is_first_turn)
      near(j + kNear < kAttentionChunk ? now.key(j + kNear) : now.value(after(j)), head_dim);
    if (is_due(j)) far(next.key(position(j)) + offset(j), head_dim);
  }
  void value(int j, int first, int count) const {  // `count` elements from `first` on
    if (is_first_turn)
      near((j + kNear < kAttentionChunk ? now.value(j + kNear) : then.key(after(j))) + first,
           count);
    if (is_due(j)) far(next.value(position(j)) + offset(j) + first, count);
  }

 private:
  static constexpr int kNear = 8;
  static_assert(kAttentionChunk <= 64);  // bits of due

  bool is_due(int j) const { return (due >> j & 1) != 0; }
  static int after(int j) { return j + kNear - kAttentionChunk; }
  // Prefetch j of this head is prefetch number head * kAttentionChunk + j of the chunk. They go
  // position by position, and through all heads at each.
  unsigned number(int j) const { return head * kAttentionChunk + j; }
  int position(int j) const { return number(j) / heads; }
  int offset(int j) const { return number(j) % heads * head_dim; }

  static constexpr int kCacheLine = 64 / sizeof(T);
  // GCC treats functions that only prefetch as having no effect; the asm prevents that.
  static void near(const T* from, int count) {
    asm volatile("");
    for (int i = 0; i < count; i += kCacheLine)
      __builtin_prefetch(from + i, /*write=*/0, /*locality=*/3);
  }
  static void far(const T* from, int count) {
    asm volatile("");
    for (int i = 0; i < count; i += kCacheLine)
      __builtin_prefetch(from + i, /*write=*/0, /*locality=*/2);
  }
};

// A chunk's keys and values of one head as float32. If several turns read them, each number is
// widened only once.
template <typename T>
class WidenedChunk {
 public:
  bool pays(int turns, int head_dim) const {
    return !std::is_same_v<T, float> && turns > 1 && head_dim <= kMaxDim;
  }

  // Widens the first `count` positions, and those that complete the last tile. Prefetches for all
  // turns.
  HeadChunk<float> fill(const HeadChunk<T>& chunk, int count, int head_dim, Prefetch<T> prefetch) {
    if (prefetch.due != 0) prefetch.due = ~std::uint64_t{0};
    for (int j = 0; j < (count + kLanes - 1) / kLanes * kLanes; ++j) {
      slots_[j] = std::ptrdiff_t{j} * head_dim;
      prefetch.key(j);
      widen(chunk.key(j), keys_ + j * head_dim, head_dim);
      prefetch.value(j, 0, head_dim);
      widen(chunk.value(j), values_ + j * head_dim, head_dim);
    }
    return {keys_, values_, &slots_};
  }

 private:
  static constexpr int kMaxDim = std::is_same_v<T, float> ? 1 : 128;  // 64 KiB

  static void widen(const T* from, float* to, int count) {
    int d = 0;
    for (; d + kLanes <= count; d += kLanes) store(to + d, load(from + d));
    for (; d < count; ++d) to[d] = to_float(from[d]);
  }

  alignas(64) float keys_[kAttentionChunk * kMaxDim];
  alignas(64) float values_[kAttentionChunk * kMaxDim];
  Chunk slots_;
};

// Every `turns`-th bit.
std::uint64_t due_in_first_turn(int turns) {
  std::uint64_t bits = 0;
  for (int j = 0; j < kAttentionChunk; j += turns) bits |= std::uint64_t{1} << j;
  return bits;
}

// Dot products of `heads` queries with the kTileKeys keys first, first + step, ..., without the
// last levels of the tree of sums: one vector per head. (Padding the last vector with zeros may
// turn a partial sum of -0 into 0, which changes no weight.)
template <int heads, typename Dim, typename T>
void dot_tile(const float* q, Dim head_dim,                    // [heads, D]
              const HeadChunk<T>& chunk, int first, int step,  // keys of [D]
              Floats* sums) {                                  // [heads]
  constexpr int keys = kTileKeys<heads>;
  PartialSums partial[heads][keys];
  const auto multiply = [&](int part, auto load_at) {
    Floats queries[heads];
    SPECDEC_UNROLL
    for (int h = 0; h < heads; ++h) queries[h] = in_register(load_at(q + h * head_dim));
    SPECDEC_UNROLL
    for (int j = 0; j < keys; ++j) {
      const Floats key = in_register(load_at(chunk.key(first + j * step)));
      SPECDEC_UNROLL
      for (int h = 0; h < heads; ++h) {
        Floats& sum = partial[h][j].part[part];
        sum = multiply_add(queries[h], key, sum);
      }
    }
  };
  int d = 0;
  for (; d + kPartialSums <= head_dim; d += kPartialSums) {
    SPECDEC_UNROLL
    for (int part = 0; part < kSumVectors; ++part) {
      multiply(part, [&](const auto* row) { return load(row + d + part * kLanes); });
    }
  }
  SPECDEC_UNROLL
  for (int part = 0; part < kSumVectors; ++part) {
    const int rest = std::min(kLanes, head_dim - d - part * kLanes);
    if (rest <= 0) break;
    multiply(part, [&](const auto* row) { return load_first(row + d + part * kLanes, rest); });
  }
  SPECDEC_UNROLL
  for (int h = 0; h < heads; ++h) {
    Floats folded[keys];
    SPECDEC_UNROLL
    for (int j = 0; j < keys; ++j) folded[j] = fold(partial[h][j]);
    sums[h] = tree_sums<kLanes / 2, keys>(folded);
  }
}

// Scores of the first `count` positions of the chunk, padded with -inf to whole vectors.
template <int heads, typename Dim, typename T>
void score(const float* q, Dim head_dim, const HeadChunk<T>& chunk, int count,
           const Prefetch<T>& prefetch,
           float (*scores)[kAttentionChunk]) {  // [heads][count]
  constexpr int tiles = kLanes / kTileKeys<heads>;
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  const Floats masked = splat<Floats>(-std::numeric_limits<float>::infinity());
  for (int j = 0; j < count; j += kLanes) {
    Floats sums[tiles][heads];
    for (int tile = 0; tile < tiles; ++tile) {
      for (int i = 0; i < kTileKeys<heads>; ++i) prefetch.key(j + tile + i * tiles);
      dot_tile<heads>(q, head_dim, chunk, j + tile, tiles, sums[tile]);
    }
    const Ints left = count - j - lane_numbers();
    SPECDEC_UNROLL
    for (int h = 0; h < heads; ++h) {
      Floats of_head[tiles];
      SPECDEC_UNROLL
      for (int tile = 0; tile < tiles; ++tile) of_head[tile] = sums[tile][h];
      const Floats dots = tree_sums<tiles / 2, tiles>(of_head);
      store(scores[h] + j, left > 0 ? dots * scale : masked);
    }
  }
}

// Turns scores into weights and adds them to the running softmax of each head. rescale: the factor
// for all earlier sums. The heads' chains of operations run side by side.
template <int heads>
void soften(float (*scores)[kAttentionChunk], int count, Running* running,  // [heads]([count])
            float* rescale) {                                               // [heads]
  float maximum[heads];
  SPECDEC_UNROLL
  for (int h = 0; h < heads; ++h) {
    Floats largest = splat<Floats>(running[h].maximum);
    for (int j = 0; j < count; j += kLanes) {  // scores are padded
      largest = larger(largest, load(scores[h] + j));
    }
    maximum[h] = largest_lane(largest);
  }
  Floats rescales = {};
  SPECDEC_UNROLL
  for (int h = 0; h < heads; ++h) rescales[h] = running[h].maximum - maximum[h];
  exponentials<1>(&rescales);
  PartialSums sums[heads];
  for (int j = 0; j < count; j += kPartialSums) {
    SPECDEC_UNROLL
    for (int part = 0; part < kSumVectors; ++part) {
      if (j + part * kLanes >= count) break;
      const int at = j + part * kLanes;
      Floats weights[heads];
      SPECDEC_UNROLL
      for (int h = 0; h < heads; ++h) weights[h] = load(scores[h] + at) - splat<Floats>(maximum[h]);
      exponentials<heads>(weights);
      SPECDEC_UNROLL
      for (int h = 0; h < heads; ++h) {
        store(scores[h] + at, weights[h]);
        sums[h].part[part] += weights[h];
      }
    }
  }
  SPECDEC_UNROLL
  for (int h = 0; h < heads; ++h) {
    rescale[h] = rescales[h];
    running[h].maximum = maximum[h];
    running[h].weight_sum =
        multiply_add(running[h].weight_sum, rescale[h], tree_sum(fold(sums[h])));
  }
}

// out = out * rescale + the sum of weights[j] * values[j] in the order of positions, for a few
// vectors of each head's values.
template <int heads, int vectors, typename Dim, typename T>
void add_values(const float (*weights)[kAttentionChunk], const float* rescale,  // [heads]([count])
                const HeadChunk<T>& chunk, int count,
                const Prefetch<T>& prefetch,             // values of [D]
                float* out, Dim head_dim, int offset) {  // [heads, D], elements from offset on
  out += offset;
  Floats sum[heads][vectors];
  SPECDEC_UNROLL
  for (int h = 0; h < heads; ++h) {
    SPECDEC_UNROLL
    for (int i = 0; i < vectors; ++i) {
      sum[h][i] = load(out + h * head_dim + i * kLanes) * rescale[h];
    }
  }
  for (int j = 0; j < count; ++j) {
    prefetch.value(j, offset, vectors * kLanes);
    const T* row = chunk.value(j) + offset;
    SPECDEC_UNROLL
    for (int i = 0; i < vectors; ++i) {
      const Floats value = in_register(load(row + i * kLanes));
      SPECDEC_UNROLL
      for (int h = 0; h < heads; ++h) {
        sum[h][i] = multiply_add(splat<Floats>(weights[h][j]), value, sum[h][i]);
      }
    }
  }
  SPECDEC_UNROLL
  for (int h = 0; h < heads; ++h) {
    SPECDEC_UNROLL
    for (int i = 0; i < vectors; ++i) store(out + h * head_dim + i * kLanes, sum[h][i]);
  }
}

// add_values() for all elements.
template <int heads, typename Dim, typename T>
void add_all_values(const float (*weights)[kAttentionChunk], const float* rescale,
                    const HeadChunk<T>& chunk, int count, const Prefetch<T>& prefetch, float* out,
                    Dim head_dim) {
  int d = 0;
  for (; d + kTileVectors * kLanes <= head_dim; d += kTileVectors * kLanes) {
    add_values<heads, kTileVectors>(weights, rescale, chunk, count, prefetch, out, head_dim, d);
  }
  for (; d + kLanes <= head_dim; d += kLanes) {
    add_values<heads, 1>(weights, rescale, chunk, count, prefetch, out, head_dim, d);
  }
  for (; d < head_dim; ++d) {
    for (int h = 0; h < heads; ++h) {
      float sum = out[h * head_dim + d] * rescale[h];
      for (int j = 0; j < count; ++j) {
        sum = multiply_add(weights[h][j], to_float(chunk.value(j)[d]), sum);
      }
      out[h * head_dim + d] = sum;
    }
  }
}

// Adds a chunk to the sums of one row and `heads` query heads. Dim: an integral_constant where
// head_dim is known to the compiler, which then unrolls loops and needs no pointer for each head.
template <int heads, typename Dim, typename T>
void attend_chunk(const float* q, int dim,                                            // [heads, D]
                  const HeadChunk<T>& chunk, int count, const Prefetch<T>& prefetch,  //
                  Running* running, float* out) {  // [heads], [heads, D]: the sums so far
  Dim head_dim;
  if constexpr (std::is_same_v<Dim, int>) head_dim = dim;
  alignas(64) float weights[heads][kAttentionChunk];
  float rescale[heads];
  score<heads>(q, head_dim, chunk, count, prefetch, weights);
  soften<heads>(weights, count, running, rescale);
  add_all_values<heads>(weights, rescale, chunk, count, prefetch, out, head_dim);
}

template <typename T>
using AttendChunk = void (*)(const float*, int, const HeadChunk<T>&, int, const Prefetch<T>&,
                             Running*, float*);
template <typename Dim, typename T>
constexpr auto kAttendChunk = []<int... heads>(std::integer_sequence<int, heads...>) {
  return std::array<AttendChunk<T>, kMaxTileHeads + 1>{nullptr, attend_chunk<heads + 1, Dim, T>...};
}
(std::make_integer_sequence<int, kMaxTileHeads>());

template <typename T>
AttendChunk<T> attend_chunk_for(int heads, int head_dim) {
  switch (head_dim) {
    case 64:
      return kAttendChunk<std::integral_constant<int, 64>, T>[heads];
    case 128:
      return kAttendChunk<std::integral_constant<int, 128>, T>[heads];
    default:
      return kAttendChunk<int, T>[heads];
  }
}

}  // namespace
}  // namespace specdec::cpu
