// Attention over pages, in plain.cpp's order of operations, chunk by chunk (attention_chunk.h).
// Several query heads and rows share each read of a key or value.
#include "kernels/cpu/attention.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "kernels/cpu/attention_chunk.h"

namespace specdec::cpu {
namespace {

constexpr int kMaxTaskRows = 8, kMaxTaskHeads = 32;
constexpr std::int64_t kWorthSplitting = 100'000;  // multiplications: about 3 us

// Rows of one sequence, and some key and value heads with their query heads.
template <typename T>
struct Task {
  ConstDeviceRows q;  // [rows, H * D], from the first query head on
  DeviceRows out;     // [rows, H * D], from the first query head on
  RowPlaces places;   // from the first row on
  const std::int32_t* pages = nullptr;
  int tail_first = 0;  // the same for all rows
  KvRows<T> cache;     // from the first key and value head on
  std::ptrdiff_t slot_width = 0;
  int kv_heads = 0;
  int group = 0;  // query heads per key and value head
  int head_dim = 0;

  int tiles() const { return (group + kMaxTileHeads - 1) / kMaxTileHeads; }  // of a group
  HeadChunk<T> head_chunk(int kv_head, const Chunk& slots) const {
    const int offset = kv_head * head_dim;
    return {cache.keys + offset, cache.values + offset, &slots};
  }
  Task row(int r) const {
    Task one = *this;
    one.q = q.slice(r, 1);
    one.out = out.slice(r, 1);
    one.places = places.from_row(r);
    return one;
  }
};

// Looks up positions start .. last for the first row. Past `last`, repeats the last position, so
// that tiles of keys can be completed without reading masked slots.
template <typename T>
void find_chunk(const Task<T>& task, int start, int last, Chunk& chunk) {
  const int page_size = task.places.page_size;
  int page = start / page_size, in_page = start % page_size;
  std::ptrdiff_t slot = 0;
  for (int j = 0; j < kAttentionChunk; ++j) {
    if (start + j <= std::min(last, task.tail_first - 1)) {
      slot = std::ptrdiff_t{task.pages[page]} * page_size + in_page;
      if (++in_page == page_size) ++page, in_page = 0;
    } else if (start + j <= last) {
      slot = task.places.tail_slot(0, start + j);
    }
    chunk[j] = slot * task.slot_width;
  }
}

using RunningOfRow = Running[kMaxTaskHeads];

// Adds the chunk from position `start` on, for one key and value head, to the sums of all rows and
// query heads that read it. Each row and tile of query heads is one turn.
template <typename T, typename Read>
void attend_head(const Task<T>& task, int kv_head, int start, const HeadChunk<Read>& chunk,
                 Prefetch<Read> prefetch, RunningOfRow* running) {  // [rows]
  const int group = task.group, head_dim = task.head_dim;
  for (int r = 0; r < task.q.rows; ++r) {
    const int count = std::min(kAttentionChunk, task.places.positions[r] + 1 - start);
    if (count <= 0) continue;
    for (int tile = 0; tile < task.tiles(); ++tile) {
      const int first = group * tile / task.tiles(), end = group * (tile + 1) / task.tiles();
      const int head = kv_head * group + first;
      attend_chunk_for<Read>(end - first, head_dim)(task.q.row(r) + head * head_dim, head_dim,
                                                    chunk, count, prefetch, &running[r][head],
                                                    task.out.row(r) + head * head_dim);
      prefetch.is_first_turn = false;
      prefetch.due <<= 1;
    }
  }
}

template <typename T>
void divide_by_weight_sums(const Task<T>& task, const RunningOfRow* running) {  // [rows]
  for (int r = 0; r < task.q.rows; ++r) {
    for (int h = 0; h < task.kv_heads * task.group; ++h) {
      float* out = task.out.row(r) + h * task.head_dim;
      const Floats sum = splat<Floats>(running[r][h].weight_sum);
      int d = 0;
      for (; d + kLanes <= task.head_dim; d += kLanes) store(out + d, load(out + d) / sum);
      for (; d < task.head_dim; ++d) out[d] /= running[r][h].weight_sum;
    }
  }
}

// Adds the chunks of positions 0 .. last, which all rows share, to the rows' sums. All heads
// process a chunk before the next chunk begins. So keys and values come from memory once, and in
// the order of their addresses, because those of all heads are side by side.
template <typename T>
void attend_together(const Task<T>& task, int last, RunningOfRow* running) {  // [rows]
  const std::uint64_t due = due_in_first_turn(task.q.rows * task.tiles());
  Chunk chunks[2];
  Chunk *chunk = &chunks[0], *next = &chunks[1];
  WidenedChunk<T> widened;
  const bool widens = widened.pays(task.q.rows * task.tiles(), task.head_dim);
  find_chunk(task, 0, last, *chunk);
  for (int start = 0; start <= last; start += kAttentionChunk) {
    const bool has_next = start + kAttentionChunk <= last;
    if (has_next) find_chunk(task, start + kAttentionChunk, last, *next);
    for (int kv_head = 0; kv_head < task.kv_heads; ++kv_head) {
      const HeadChunk<T> of_head = task.head_chunk(kv_head, *chunk);
      const bool is_last = kv_head + 1 == task.kv_heads;
      const Prefetch<T> prefetch{.next = task.head_chunk(0, *next),
                                 .due = has_next ? due : 0,
                                 .head = kv_head,
                                 .heads = task.kv_heads,
                                 .now = of_head,
                                 .then = is_last ? task.head_chunk(0, has_next ? *next : *chunk)
                                                 : task.head_chunk(kv_head + 1, *chunk),
                                 .is_first_turn = true,
                                 .head_dim = task.head_dim};
      if (widens) {
        const int count = std::min(kAttentionChunk, last + 1 - start);
        attend_head(task, kv_head, start, widened.fill(of_head, count, task.head_dim, prefetch), {},
                    running);
      } else {
        attend_head(task, kv_head, start, of_head, prefetch, running);
      }
    }
    std::swap(chunk, next);
  }
}

// Adds the chunks from position `start` on, which include the row's tail, to the sums of one row.
template <typename T>
void attend_tail(const Task<T>& row, int start, RunningOfRow* running) {  // [1]
  const int last = row.places.positions[0];
  Chunk chunk;
  for (; start <= last; start += kAttentionChunk) {
    find_chunk(row, start, last, chunk);
    for (int kv_head = 0; kv_head < row.kv_heads; ++kv_head) {
      attend_head(row, kv_head, start, row.head_chunk(kv_head, chunk), {}, running);
    }
  }
}

// Attention of a task's rows. `out` holds the sums until they are divided.
template <typename T>
void attend(const Task<T>& task) {
  const int rows = task.q.rows, width = task.kv_heads * task.group * task.head_dim;
  for (int r = 0; r < rows; ++r) std::fill_n(task.out.row(r), width, 0.0f);
  RunningOfRow running[kMaxTaskRows];
  const int last = *std::max_element(task.places.positions, task.places.positions + rows);
  if (last < task.tail_first) {
    attend_together(task, last, running);
  } else {
    const int shared = task.tail_first / kAttentionChunk * kAttentionChunk;  // positions
    if (shared > 0) attend_together(task, shared - 1, running);
    for (int r = 0; r < rows; ++r) attend_tail(task.row(r), shared, running + r);
  }
  divide_by_weight_sums(task, running);
}

// The arguments of attention().
template <typename T>
struct Call {
  ConstDeviceRows q;
  const KvRows<T>& cache;
  const RowPlaces& places;
  const HeadShape& heads;
  DeviceRows out;
};

// A part of the call: some key and value heads, and the rows first .. end - 1, of any sequences.
struct Part {
  int first_kv_head, kv_heads;
  int first, end;
};

template <typename T>
void attend_part(const Call<T>& call, const Part& part) {
  const auto& [q, cache, places, shape, out] = call;
  const int group = shape.n_heads / shape.n_kv_heads;
  for (int first = part.first, next; first < part.end; first = next) {
    next = first + 1;  // the run of rows of one sequence
    while (next < part.end && places.table_starts[next] == places.table_starts[first]) ++next;
    Task<T> task;
    task.q = q.slice(first, next - first);
    task.out = out.slice(first, next - first);
    task.places = places.from_row(first);
    task.pages = places.page_tables + places.table_starts[first];
    task.tail_first = places.tail_first(first);
    task.cache.keys = cache.keys + std::ptrdiff_t{part.first_kv_head} * shape.head_dim;
    task.cache.values = cache.values + std::ptrdiff_t{part.first_kv_head} * shape.head_dim;
    task.slot_width = std::ptrdiff_t{shape.n_kv_heads} * shape.head_dim;
    task.kv_heads = part.kv_heads;
    task.head_dim = shape.head_dim;
    // A group that is too large for one task is split; kv_heads is 1 then.
    for (int head = 0; head < group; head += kMaxTaskHeads) {
      const int offset = (part.first_kv_head * group + head) * shape.head_dim;
      task.group = std::min(kMaxTaskHeads, group - head);
      task.q.data = q.row(first) + offset;
      task.out.data = out.row(first) + offset;
      attend(task);
    }
  }
}

template <typename T>
void attend_all(ThreadTeam& team, const Call<T>& call) {
  const ConstDeviceRows q = call.q;
  const HeadShape& heads = call.heads;
  // Blocks of heads and rows share reads. They are small enough that every thread gets one.
  const int group = heads.n_heads / heads.n_kv_heads;
  const int block_heads =
      std::clamp(heads.n_kv_heads / team.size(), 1, std::max(1, kMaxTaskHeads / group));
  const int head_blocks = (heads.n_kv_heads + block_heads - 1) / block_heads;
  const std::int64_t units = std::int64_t{q.rows} * head_blocks;
  const int block_rows = std::clamp<std::int64_t>(units / team.size(), 1, kMaxTaskRows);
  const int row_blocks = (q.rows + block_rows - 1) / block_rows;
  const int tasks = row_blocks * head_blocks;
  const auto attend_task = [&](int task) {
    const int first = task % row_blocks * block_rows, first_head = task / row_blocks * block_heads;
    attend_part(call, {first_head, std::min(block_heads, heads.n_kv_heads - first_head), first,
                       std::min(q.rows, first + block_rows)});
  };

  std::int64_t multiplications = 0;
  for (int t = 0; t < q.rows; ++t)
    multiplications += std::int64_t{2} * q.width * (call.places.positions[t] + 1);
  if (multiplications < kWorthSplitting) {
    for (int task = 0; task < tasks; ++task) attend_task(task);
    return;
  }
  std::atomic<int> next = 0;  // contexts differ in length: a free thread takes the next task
  team.run([&](int) {
    for (int task; (task = next.fetch_add(1, std::memory_order_relaxed)) < tasks;)
      attend_task(task);
  });
}

}  // namespace

void attention(ThreadTeam& team, ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
               const HeadShape& heads, DeviceRows out) {
  with_rows(cache, [&]<typename T>(const KvRows<T>& rows) {
    attend_all(team, Call<T>{q, rows, places, heads, out});
  });
}

}  // namespace specdec::cpu
