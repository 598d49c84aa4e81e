// Attention over pages: plain.cpp's order of operations, several query heads and rows to each read
// of a key or value.
#include "kernels/cpu/attention.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/cpu/exponential.h"
#include "kernels/cpu/sums.h"

namespace specdec::cpu {
namespace {

// Query heads that share the loads of a key or value, and keys whose dot products run side by side
// (enough chains of fused multiply-adds to hide their latency): as many as registers allow.
#if defined(__AVX2__) && !defined(__AVX512F__)
constexpr int kMaxTileHeads = 1;  // 16 registers
#else
constexpr int kMaxTileHeads = 3;  // 32 registers
#endif
constexpr int kTileKeys = 8 / kSumVectors;
constexpr int kTileVectors = 4;  // of a value
constexpr int kMaxTaskRows = 8;

constexpr std::int64_t kWorthSplitting = 100'000;  // multiplications: some 3 us

// Where the keys and values of one chunk's positions lie, for one key and value head.
struct Chunk {
  int start = 0;                                     // position
  std::array<const float*, kAttentionChunk> keys;    // [D] each
  std::array<const float*, kAttentionChunk> values;  // [D] each
};

// Rows of one sequence, and the query heads of a tile, in one key and value head.
struct Task {
  ConstDeviceRows q;                        // [rows, H * D], from the tile's first head on
  DeviceRows out;                           // [rows, H * D], the same
  const std::int32_t* positions = nullptr;  // [rows]
  const std::int32_t* pages = nullptr;
  int page_size = 1;
  const float* keys = nullptr;    // the head's key in slot 0
  const float* values = nullptr;  // the head's value in slot 0
  std::ptrdiff_t slot_width = 0;
  int head_dim = 0;
};

// The softmax of one row and head so far.
struct Running {
  float maximum = std::numeric_limits<float>::lowest();
  float weight_sum = 0.0f;
};

// Looks up positions start .. last; those that follow stand for the last once more, so that tiles
// of keys may be filled up without a look at masked slots.
void find_chunk(const Task& task, int start, int last, Chunk& chunk) {
  chunk.start = start;
  int page = start / task.page_size, in_page = start % task.page_size;
  const float* key = nullptr;
  const float* value = nullptr;
  for (int j = 0; j < kAttentionChunk; ++j) {
    if (start + j <= last) {
      const std::ptrdiff_t slot = std::ptrdiff_t{task.pages[page]} * task.page_size + in_page;
      key = task.keys + slot * task.slot_width;
      value = task.values + slot * task.slot_width;
      if (++in_page == task.page_size) ++page, in_page = 0;
    }
    chunk.keys[static_cast<std::size_t>(j)] = key;
    chunk.values[static_cast<std::size_t>(j)] = value;
  }
}

// Partial sums of the dot products of `heads` queries with kTileKeys keys. (Filling up the last
// vector with zeros may turn a partial sum of -0 into 0, which no score's weight shows.)
template <int heads>
void dot_tile(const float* q, int head_dim,  // [heads, D]
              const float* const* keys,      // [kTileKeys] -> [D]
              Floats* sums) {                // [heads][kTileKeys], stride kAttentionChunk, folded
  PartialSums partial[heads][kTileKeys];
  const auto multiply = [&](int part, auto load_at) {
    Floats queries[heads];
    SPECDEC_UNROLL
    for (int h = 0; h < heads; ++h) queries[h] = load_at(q + h * head_dim);
    SPECDEC_UNROLL
    for (int j = 0; j < kTileKeys; ++j) {
      const Floats key = load_at(keys[j]);
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
      multiply(part, [&](const float* row) { return load(row + d + part * kLanes); });
    }
  }
  SPECDEC_UNROLL
  for (int part = 0; part < kSumVectors; ++part) {
    const int rest = std::min(kLanes, head_dim - d - part * kLanes);
    if (rest <= 0) break;
    multiply(part, [&](const float* row) { return load_first(row + d + part * kLanes, rest); });
  }
  SPECDEC_UNROLL
  for (int h = 0; h < heads; ++h) {
    SPECDEC_UNROLL
    for (int j = 0; j < kTileKeys; ++j) sums[h * kAttentionChunk + j] = fold(partial[h][j]);
  }
}

// Scores of the first `count` positions of the chunk, then -inf up to a whole vector.
template <int heads>
void score(const float* q, int head_dim, const Chunk& chunk, int count,
           float (*scores)[kAttentionChunk]) {  // [heads][count]
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  Floats sums[heads][kAttentionChunk];  // a vector of partial sums for each dot product
  for (int j = (count - 1) / kLanes * kLanes; j < (count + kLanes - 1) / kLanes * kLanes; ++j) {
    for (int h = 0; h < heads; ++h) sums[h][j] = Floats{};  // some of the last are not computed
  }
  for (int j = 0; j < count; j += kTileKeys) {
    dot_tile<heads>(q, head_dim, &chunk.keys[static_cast<std::size_t>(j)], &sums[0][j]);
  }
  const Floats masked = splat<Floats>(-std::numeric_limits<float>::infinity());
  for (int j = 0; j < count; j += kLanes) {
    const Ints left = count - j - lane_numbers();
    for (int h = 0; h < heads; ++h) {
      const Floats dots = tree_sums(sums[h] + j);
      store(scores[h] + j, left > 0 ? dots * scale : masked);
    }
  }
}

// Turns scores into weights and takes them into the running softmax. Returns what everything summed
// before must be scaled by.
float soften(float* scores, int count, Running& running) {  // [count], filled up
  Floats largest = splat<Floats>(running.maximum);
  for (int j = 0; j < count; j += kLanes) {
    const Floats s = load(scores + j);
    largest = s > largest ? s : largest;
  }
  const float maximum = largest_lane(largest);
  PartialSums sums;
  for (int j = 0; j < count; j += kPartialSums) {
    SPECDEC_UNROLL
    for (int part = 0; part < kSumVectors; ++part) {
      float* at = scores + j + part * kLanes;
      if (j + part * kLanes >= count) break;
      const Floats weights = exponential(load(at) - splat<Floats>(maximum));
      store(at, weights);
      sums.part[part] += weights;
    }
  }
  const float rescale = exponential(running.maximum - maximum);
  running.maximum = maximum;
  running.weight_sum = multiply_add(running.weight_sum, rescale, tree_sum(fold(sums)));
  return rescale;
}

// out = out * rescale + the sum of weights[j] * values[j] in the order of positions, for some
// vectors of each head's values.
template <int heads, int vectors>
void add_values(const float (*weights)[kAttentionChunk],  // [heads][count]
                const float* const* values, int count,    // [count] -> [vectors * kLanes]
                const float* rescale,                     // [heads]
                float* out, int head_dim, int offset) {   // [heads, D], elements from offset on
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
    SPECDEC_UNROLL
    for (int i = 0; i < vectors; ++i) {
      const Floats value = load(values[j] + offset + i * kLanes);
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

// The same for all elements.
template <int heads>
void add_all_values(const float (*weights)[kAttentionChunk], const Chunk& chunk, int count,
                    const float* rescale, float* out, int head_dim) {  // out: [heads, D]
  const float* const* values = chunk.values.data();
  int d = 0;
  for (; d + kTileVectors * kLanes <= head_dim; d += kTileVectors * kLanes) {
    add_values<heads, kTileVectors>(weights, values, count, rescale, out, head_dim, d);
  }
  for (; d + kLanes <= head_dim; d += kLanes) {
    add_values<heads, 1>(weights, values, count, rescale, out, head_dim, d);
  }
  for (; d < head_dim; ++d) {
    for (int h = 0; h < heads; ++h) {
      float sum = out[h * head_dim + d] * rescale[h];
      for (int j = 0; j < count; ++j) sum = multiply_add(weights[h][j], values[j][d], sum);
      out[h * head_dim + d] = sum;
    }
  }
}

// Attention of a task's rows. The rows take turns at each chunk, so that its keys and values come
// from memory once; meanwhile `out` holds the sums.
template <int heads>
void attend(const Task& task) {
  const int rows = task.q.rows, head_dim = task.head_dim;
  Running running[kMaxTaskRows][heads];
  for (int r = 0; r < rows; ++r) std::fill_n(task.out.row(r), heads * head_dim, 0.0f);
  const int last = *std::max_element(task.positions, task.positions + rows);
  for (int start = 0; start <= last; start += kAttentionChunk) {
    Chunk chunk;
    find_chunk(task, start, last, chunk);
    for (int r = 0; r < rows; ++r) {
      const int count = std::min(kAttentionChunk, task.positions[r] + 1 - start);
      if (count <= 0) continue;
      alignas(64) float weights[heads][kAttentionChunk];
      float rescale[heads];
      score<heads>(task.q.row(r), head_dim, chunk, count, weights);
      for (int h = 0; h < heads; ++h) rescale[h] = soften(weights[h], count, running[r][h]);
      add_all_values<heads>(weights, chunk, count, rescale, task.out.row(r), head_dim);
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int h = 0; h < heads; ++h) {
      float* out = task.out.row(r) + h * head_dim;
      for (int d = 0; d < head_dim; ++d) out[d] /= running[r][h].weight_sum;
    }
  }
}

using Attend = void (*)(const Task&);
constexpr auto kAttendHeads = []<int... heads>(std::integer_sequence<int, heads...>) {
  return std::array<Attend, kMaxTileHeads + 1>{nullptr, attend<heads + 1>...};
}
(std::make_integer_sequence<int, kMaxTileHeads>());

// One key and value head, and the rows from `first` to before `end`, of any sequences.
void attend_rows(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
                 const HeadShape& shape, DeviceRows out, int kv_head, int first, int end) {
  const int group = shape.n_heads / shape.n_kv_heads;
  const int tiles = (group + kMaxTileHeads - 1) / kMaxTileHeads;
  while (first < end) {
    int next = first + 1;  // the run of rows of one sequence
    while (next < end && places.table_starts[next] == places.table_starts[first]) ++next;
    Task task;
    task.positions = places.positions + first;
    task.pages = places.page_tables + places.table_starts[first];
    task.page_size = places.page_size;
    task.keys = cache.keys + std::ptrdiff_t{kv_head} * shape.head_dim;
    task.values = cache.values + std::ptrdiff_t{kv_head} * shape.head_dim;
    task.slot_width = std::ptrdiff_t{shape.n_kv_heads} * shape.head_dim;
    task.head_dim = shape.head_dim;
    for (int tile = 0; tile < tiles; ++tile) {
      const int head = group * tile / tiles, heads = group * (tile + 1) / tiles - head;
      task.q = q.slice(first, next - first);
      task.out = out.slice(first, next - first);
      task.q.data += (kv_head * group + head) * shape.head_dim;
      task.out.data += (kv_head * group + head) * shape.head_dim;
      kAttendHeads[static_cast<std::size_t>(heads)](task);
    }
    first = next;
  }
}

}  // namespace

void attention(ThreadTeam& team, ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
               const HeadShape& heads, DeviceRows out) {
  // Blocks of rows that share reads, but not so large that a thread gets none.
  const std::int64_t units = std::int64_t{q.rows} * heads.n_kv_heads;
  const int block_rows =
      static_cast<int>(std::clamp<std::int64_t>(units / team.size(), 1, kMaxTaskRows));
  const int blocks = (q.rows + block_rows - 1) / block_rows;
  const int tasks = blocks * heads.n_kv_heads;
  const auto attend_task = [&](int task) {
    const int first = task % blocks * block_rows;
    attend_rows(q, cache, places, heads, out, task / blocks, first,
                std::min(q.rows, first + block_rows));
  };

  std::int64_t multiplications = 0;
  for (int t = 0; t < q.rows; ++t)
    multiplications += std::int64_t{2} * q.width * (places.positions[t] + 1);
  if (multiplications < kWorthSplitting) {
    for (int task = 0; task < tasks; ++task) attend_task(task);
    return;
  }
  std::atomic<int> next = 0;  // contexts differ in length: whoever is free takes the next task
  team.run([&](int) {
    for (int task; (task = next.fetch_add(1, std::memory_order_relaxed)) < tasks;)
      attend_task(task);
  });
}

}  // namespace specdec::cpu
