// Attention over pages: plain.cpp's order of operations, several query heads and rows to each read
// of a key or value, and what comes next asked for meanwhile.
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
constexpr int kMaxTileHeads = 4;  // 32 registers
#endif
template <int heads>
constexpr int kTileKeys = (heads > 3 ? 4 : 8) / kSumVectors;
constexpr int kTileVectors = 4;  // of a value
constexpr int kMaxTaskRows = 8, kMaxTaskHeads = 32;

constexpr std::int64_t kWorthSplitting = 100'000;  // multiplications: some 3 us

// Where the slots of one chunk's positions begin, in floats from the first slot.
using Chunk = std::array<std::ptrdiff_t, kAttentionChunk>;

// The keys and values of one head at a chunk's positions.
struct HeadChunk {
  const float* keys = nullptr;    // the head's key in slot 0
  const float* values = nullptr;  // the head's value in slot 0
  const Chunk* slots = nullptr;

  const float* key(int j) const { return keys + (*slots)[static_cast<std::size_t>(j)]; }
  const float* value(int j) const { return values + (*slots)[static_cast<std::size_t>(j)]; }
};

// Rows of one sequence, and some key and value heads with the query heads that read them.
struct Task {
  ConstDeviceRows q;                        // [rows, H * D], from the first of the heads on
  DeviceRows out;                           // [rows, H * D], the same
  const std::int32_t* positions = nullptr;  // [rows]
  const std::int32_t* pages = nullptr;
  int page_size = 1;
  KvLayer cache;  // from the first key and value head on
  std::ptrdiff_t slot_width = 0;
  int kv_heads = 0;
  int group = 0;  // query heads of each
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
  int page = start / task.page_size, in_page = start % task.page_size;
  std::ptrdiff_t slot = 0;
  for (int j = 0; j < kAttentionChunk; ++j) {
    if (start + j <= last) {
      slot = std::ptrdiff_t{task.pages[page]} * task.page_size + in_page;
      if (++in_page == task.page_size) ++page, in_page = 0;
    }
    chunk[static_cast<std::size_t>(j)] = slot * task.slot_width;
  }
}

// Asks for the next chunk while this one is computed, a little at a time: memory that is waited for
// chunk by chunk stands idle in between. Those that share the chunk take turns, one key and value
// each.
struct Ahead {
  HeadChunk next;
  std::uint64_t due = 0;  // bit j: number j is to be asked for in this turn

  void ask_for_key(int j, int head_dim) const {
    if (is_due(j)) ask_for(next.key(j), head_dim);
  }
  void ask_for_value(int j, int offset, int count) const {  // elements from offset on
    if (is_due(j)) ask_for(next.value(j) + offset, count);
  }

 private:
  static_assert(kAttentionChunk <= 64);  // bits of due
  bool is_due(int j) const { return (due >> j & 1) != 0; }
  static void ask_for(const float* from, int count) {
    constexpr int kCacheLine = 64 / sizeof(float);
    asm volatile("");  // GCC would take a function that only prefetches for one without effects
    for (int i = 0; i < count; i += kCacheLine) {
      __builtin_prefetch(from + i, /*write=*/0, /*locality=*/2);  // into the second level
    }
  }
};

// Every `turns`-th bit.
std::uint64_t due_in_first_turn(int turns) {
  std::uint64_t bits = 0;
  for (int j = 0; j < kAttentionChunk; j += turns) bits |= std::uint64_t{1} << j;
  return bits;
}

// Dot products of `heads` queries with kTileKeys keys, of numbers first, first + step, ..., without
// the last levels of the tree of sums: a vector for each head. (Filling up the last vector with
// zeros may turn a partial sum of -0 into 0, which no score's weight shows.)
template <int heads>
void dot_tile(const float* q, int head_dim,                 // [heads, D]
              const HeadChunk& chunk, int first, int step,  // keys of [D]
              Floats* sums) {                               // [heads]
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
    Floats folded[keys];
    SPECDEC_UNROLL
    for (int j = 0; j < keys; ++j) folded[j] = fold(partial[h][j]);
    sums[h] = tree_sums<kLanes / 2, keys>(folded);
  }
}

// Scores of the first `count` positions of the chunk, then -inf up to a whole vector.
template <int heads>
void score(const float* q, int head_dim, const HeadChunk& chunk, int count, const Ahead& ahead,
           float (*scores)[kAttentionChunk]) {  // [heads][count]
  constexpr int tiles = kLanes / kTileKeys<heads>;
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  const Floats masked = splat<Floats>(-std::numeric_limits<float>::infinity());
  for (int j = 0; j < count; j += kLanes) {
    Floats sums[tiles][heads];
    for (int tile = 0; tile < tiles; ++tile) {
      for (int i = 0; i < kTileKeys<heads>; ++i) ahead.ask_for_key(j + tile + i * tiles, head_dim);
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
void add_values(const float (*weights)[kAttentionChunk], const float* rescale,  // [heads]([count])
                const HeadChunk& chunk, int count, const Ahead& ahead,          // values of [D]
                float* out, int head_dim, int offset) {  // [heads, D], elements from offset on
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
    ahead.ask_for_value(j, offset, vectors * kLanes);
    const float* row = chunk.value(j) + offset;
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

// The same for all elements.
template <int heads>
void add_all_values(const float (*weights)[kAttentionChunk], const float* rescale,
                    const HeadChunk& chunk, int count, const Ahead& ahead, float* out,
                    int head_dim) {
  int d = 0;
  for (; d + kTileVectors * kLanes <= head_dim; d += kTileVectors * kLanes) {
    add_values<heads, kTileVectors>(weights, rescale, chunk, count, ahead, out, head_dim, d);
  }
  for (; d + kLanes <= head_dim; d += kLanes) {
    add_values<heads, 1>(weights, rescale, chunk, count, ahead, out, head_dim, d);
  }
  for (; d < head_dim; ++d) {
    for (int h = 0; h < heads; ++h) {
      float sum = out[h * head_dim + d] * rescale[h];
      for (int j = 0; j < count; ++j) sum = multiply_add(weights[h][j], chunk.value(j)[d], sum);
      out[h * head_dim + d] = sum;
    }
  }
}

// Adds a chunk to the sums of one row and `heads` query heads.
template <int heads>
void attend_chunk(const float* q, int head_dim,                           // [heads, D]
                  const HeadChunk& chunk, int count, const Ahead& ahead,  //
                  Running* running, float* out) {  // [heads], [heads, D]: the sums so far
  alignas(64) float weights[heads][kAttentionChunk];
  float rescale[heads];
  score<heads>(q, head_dim, chunk, count, ahead, weights);
  for (int h = 0; h < heads; ++h) rescale[h] = soften(weights[h], count, running[h]);
  add_all_values<heads>(weights, rescale, chunk, count, ahead, out, head_dim);
}

using AttendChunk = void (*)(const float*, int, const HeadChunk&, int, const Ahead&, Running*,
                             float*);
constexpr auto kAttendChunk = []<int... heads>(std::integer_sequence<int, heads...>) {
  return std::array<AttendChunk, kMaxTileHeads + 1>{nullptr, attend_chunk<heads + 1>...};
}
(std::make_integer_sequence<int, kMaxTileHeads>());

// Attention of a task's rows. Heads, rows and tiles of query heads take turns at each chunk: so its
// keys and values come from memory once, and those of all heads, which lie side by side, one after
// the other. Meanwhile `out` holds the sums.
void attend(const Task& task) {
  const int rows = task.q.rows, group = task.group, head_dim = task.head_dim;
  const int heads = task.kv_heads * group, tiles = (group + kMaxTileHeads - 1) / kMaxTileHeads;
  Running running[kMaxTaskRows][kMaxTaskHeads];
  for (int r = 0; r < rows; ++r) std::fill_n(task.out.row(r), heads * head_dim, 0.0f);
  const int last = *std::max_element(task.positions, task.positions + rows);
  const std::uint64_t due_first = due_in_first_turn(rows * tiles);
  Chunk chunks[2];
  find_chunk(task, 0, last, chunks[0]);
  for (int start = 0; start <= last; start += kAttentionChunk) {
    const Chunk& chunk = chunks[start / kAttentionChunk % 2];
    Chunk& next = chunks[(start / kAttentionChunk + 1) % 2];
    const bool has_next = start + kAttentionChunk <= last;
    if (has_next) find_chunk(task, start + kAttentionChunk, last, next);
    for (int kv_head = 0; kv_head < task.kv_heads; ++kv_head) {
      const auto of_head = [&](const Chunk* slots) {
        const int offset = kv_head * head_dim;
        return HeadChunk{task.cache.keys + offset, task.cache.values + offset, slots};
      };
      Ahead ahead{.next = of_head(&next), .due = has_next ? due_first : 0};
      for (int r = 0; r < rows; ++r) {
        const int count = std::min(kAttentionChunk, task.positions[r] + 1 - start);
        if (count <= 0) continue;
        for (int tile = 0; tile < tiles; ++tile, ahead.due <<= 1) {
          const int first = group * tile / tiles, end = group * (tile + 1) / tiles;
          const int head = kv_head * group + first;
          kAttendChunk[static_cast<std::size_t>(end - first)](
              task.q.row(r) + head * head_dim, head_dim, of_head(&chunk), count, ahead,
              &running[r][head], task.out.row(r) + head * head_dim);
        }
      }
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int h = 0; h < heads; ++h) {
      float* out = task.out.row(r) + h * head_dim;
      for (int d = 0; d < head_dim; ++d) out[d] /= running[r][h].weight_sum;
    }
  }
}

// Some key and value heads, and the rows from `first` to before `end`, of any sequences.
void attend_rows(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
                 const HeadShape& shape, DeviceRows out, int first_kv_head, int kv_heads, int first,
                 int end) {
  const int group = shape.n_heads / shape.n_kv_heads;
  while (first < end) {
    int next = first + 1;  // the run of rows of one sequence
    while (next < end && places.table_starts[next] == places.table_starts[first]) ++next;
    Task task;
    task.q = q.slice(first, next - first);
    task.out = out.slice(first, next - first);
    task.positions = places.positions + first;
    task.pages = places.page_tables + places.table_starts[first];
    task.page_size = places.page_size;
    task.cache.keys = cache.keys + std::ptrdiff_t{first_kv_head} * shape.head_dim;
    task.cache.values = cache.values + std::ptrdiff_t{first_kv_head} * shape.head_dim;
    task.slot_width = std::ptrdiff_t{shape.n_kv_heads} * shape.head_dim;
    task.kv_heads = kv_heads;
    task.head_dim = shape.head_dim;
    // A group that is too large for a task comes in parts; kv_heads is 1 then.
    for (int head = 0; head < group; head += kMaxTaskHeads) {
      const int offset = (first_kv_head * group + head) * shape.head_dim;
      task.group = std::min(kMaxTaskHeads, group - head);
      task.q.data = q.row(first) + offset;
      task.out.data = out.row(first) + offset;
      attend(task);
    }
    first = next;
  }
}

}  // namespace

void attention(ThreadTeam& team, ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
               const HeadShape& heads, DeviceRows out) {
  // Blocks of heads and of rows that share reads, but not so large that a thread gets none.
  const int group = heads.n_heads / heads.n_kv_heads;
  const int block_heads =
      std::clamp(heads.n_kv_heads / team.size(), 1, std::max(1, kMaxTaskHeads / group));
  const int head_blocks = (heads.n_kv_heads + block_heads - 1) / block_heads;
  const std::int64_t units = std::int64_t{q.rows} * head_blocks;
  const int block_rows =
      static_cast<int>(std::clamp<std::int64_t>(units / team.size(), 1, kMaxTaskRows));
  const int row_blocks = (q.rows + block_rows - 1) / block_rows;
  const int tasks = row_blocks * head_blocks;
  const auto attend_task = [&](int task) {
    const int first = task % row_blocks * block_rows, first_head = task / row_blocks * block_heads;
    attend_rows(q, cache, places, heads, out, first_head,
                std::min(block_heads, heads.n_kv_heads - first_head), first,
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
