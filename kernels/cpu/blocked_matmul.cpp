#include "kernels/cpu/blocked_matmul.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/cpu/panel_steps.h"

namespace specdec::cpu {
namespace {

// A chunk is a number of steps of a panel as float32, which all rows of a block use: 16 KiB, in the
// first-level cache. Every panel reads the block of x again.
constexpr int kChunkSteps = 4096 / kPanelRows;
constexpr int kBlockRows = 256;
// The most rows of x that are multiplied with a chunk at once. Twelve, as in matmul.cpp, took 7 %
// longer with 512 rows: nothing here waits for memory, and each tile's part of x must be found in
// the first-level cache, too.
constexpr int kTileRows = kRegisters < 32 ? 6 : 8;
constexpr int kChunkGroups = kChunkSteps / kGroupElements;
static_assert(kChunkSteps % kGroupElements == 0, "whole groups");

// A block of x in the order in which it is read: [K / kChunkSteps][rows][kChunkSteps]. So rows that
// share a tile are side by side. In x itself, their starts may all map to one set of the cache. For
// q4 the sums of x over groups follow, [K / kChunkSteps][rows][kChunkGroups].
struct PackedBlock {
  float* data;
  int rows, width;

  float* at(int row, int step) const {  // REQUIRES: step is a multiple of kChunkSteps
    return data + std::ptrdiff_t{step} * rows + std::ptrdiff_t{row} * kChunkSteps;
  }
  float* sums_at(int row, int step) const {
    float* const sums = data + std::ptrdiff_t{parts_of(width, kChunkSteps)} * rows * kChunkSteps;
    return sums + (std::ptrdiff_t{step} / kChunkSteps * rows + row) * kChunkGroups;
  }
};

// For q4, zeros follow the last elements, up to a whole group.
void pack(const float* from, int row, bool is_q4, const PackedBlock& block) {  // [K]
  for (int k = 0; k < block.width; k += kChunkSteps) {
    const int steps = std::min(kChunkSteps, block.width - k);
    float* const to = block.at(row, k);
    float* const end = std::copy_n(from + k, steps, to);
    if (!is_q4) continue;
    std::fill(end, to + groups_of(steps) * kGroupElements, 0.0f);
    prepare_for_groups(to, groups_of(steps), block.sums_at(row, k));
  }
}

// The product of a tile of rows and a chunk.
struct Tile {
  const float* chunk;   // [steps][kPanelRows]
  const float* x;       // [rows][kChunkSteps]
  const float* x_sums;  // [rows][kChunkGroups], for q4
  int steps;
  const float* scales;    // [kPanelRows], for the last chunk of int8; otherwise null
  const PanelGroup* q4;   // the groups of the chunk, or null: of another type
  const PanelGroup8* q8;  // the same
  float* sums;            // [rows][kPanelRows]: of the earlier chunks
  bool is_first;          // no chunk is earlier
  float* out;             // [rows, kPanelRows]
  std::ptrdiff_t out_stride;
};

template <int M>
void multiply(const Tile& tile) {
  TileSums<M> sums;
  if (!tile.is_first) {
    SPECDEC_UNROLL
    for (int m = 0; m < M; ++m) {
      sums.low[m] = load(tile.sums + m * kPanelRows);
      sums.high[m] = load(tile.sums + m * kPanelRows + kLanes);
    }
  }
  const float* next_x = tile.x + M * kChunkSteps;  // the next tile's
  const auto prefetch_step = [&] {
    __builtin_prefetch(next_x, /*write=*/0, /*locality=*/3);
    next_x += M;
  };
  const auto add = [&](int first, int steps, TileSums<M>& to) {
    add_steps<WeightType::kF32, M>(
        reinterpret_cast<const std::byte*>(tile.chunk + first * kPanelRows), tile.x + first,
        kChunkSteps, steps, prefetch_step, to);
  };
  const auto each_group = [&](const auto& use) {
    for (int g = 0; g < tile.steps; g += kGroupElements) {
      TileSums<M> chains;
      add(g, kGroupElements, chains);
      use(g / kGroupElements, chains);
    }
  };
  if (tile.q4 != nullptr) {
    each_group([&](int g, const TileSums<M>& chains) {
      add_group(tile.q4[g], chains, tile.x_sums + g, kChunkGroups, sums);
    });
  } else if (tile.q8 != nullptr) {
    each_group([&](int g, const TileSums<M>& chains) { add_group(tile.q8[g], chains, sums); });
  } else {
    add(0, tile.steps, sums);
  }
  if (tile.scales != nullptr) scale(tile.scales, sums);
  store_sums(sums, tile.out, tile.out_stride);
}

constexpr auto kMultiply = []<int... M>(std::integer_sequence<int, M...>) {
  return std::array<void (*)(const Tile&), kTileRows + 1>{nullptr, multiply<M + 1>...};
}
(std::make_integer_sequence<int, kTileRows>());

void store_step(float* to, const PanelStep& step) {
  store(to, step.low);
  store(to + kLanes, step.high);
}

template <WeightType type>
void widen(const std::byte* panel, int steps, float* chunk) {  // [steps][kPanelRows]
  for (int k = 0; k < steps; ++k) {
    store_step(chunk + k * kPanelRows, load_step<type>(panel + k * kStepBytes<type>));
  }
}

// The integers q of whole groups, times the powers of their steps.
void widen_q4(const PanelGroup* groups, int steps, float* chunk) {
  for (int first = 0; first < steps; first += kGroupElements) {
    for_groups<1>(groups++, [&](const PanelStep& step, int k, int) {
      store_step(chunk + (first + k) * kPanelRows, step);
    });
  }
}

// Whole groups.
void widen_q8(const PanelGroup8* groups, int steps, float* chunk) {
  for (int first = 0; first < steps; first += kGroupElements) {
    widen<WeightType::kInt8>((*groups++).steps(), kGroupElements, chunk + first * kPanelRows);
  }
}

void widen(WeightType type, const std::byte* panel, int steps, float* chunk) {
  switch (type) {
    case WeightType::kF32:
      return widen<WeightType::kF32>(panel, steps, chunk);
    case WeightType::kF16:
      return widen<WeightType::kF16>(panel, steps, chunk);
    case WeightType::kInt8:
      return widen<WeightType::kInt8>(panel, steps, chunk);
    case WeightType::kQ4:
      return widen_q4(reinterpret_cast<const PanelGroup*>(panel), steps, chunk);
    case WeightType::kQ8:
      return widen_q8(reinterpret_cast<const PanelGroup8*>(panel), steps, chunk);
    default:
      return widen<WeightType::kBF16>(panel, steps, chunk);
  }
}

template <typename Group>
const Group* groups_if(bool has_groups, const std::byte* panel) {
  return has_groups ? reinterpret_cast<const Group*>(panel) : nullptr;
}

// Into the second-level cache.
void prefetch(const std::byte* from, std::ptrdiff_t bytes) {
  asm volatile("");  // otherwise GCC treats a function that only prefetches as having no effect
  for (std::ptrdiff_t line = 0; line <= bytes; line += 64) {
    __builtin_prefetch(from + line, /*write=*/0, /*locality=*/2);
  }
}

// y: [block.rows, up to kPanelRows].
void multiply_panel(const PackedMatrix& weight, std::int64_t p, const PackedBlock& block,
                    DeviceRows y) {
  alignas(64) float chunk[kChunkSteps * kPanelRows];
  alignas(64) float sums[kBlockRows * kPanelRows];
  const int parts = parts_of(block.rows, kTileRows);
  const std::ptrdiff_t chunk_bytes =
      steps_of(weight.type(), kChunkSteps) * step_bytes(weight.type());
  const std::byte* panel = weight.panel(p);
  for (int k = 0; k < block.width; k += kChunkSteps) {
    const int steps = std::min(kChunkSteps, block.width - k);
    const bool is_last = k + steps == block.width;
    const bool to_y = is_last && y.width == kPanelRows;
    widen(weight.type(), panel, steps, chunk);
    const std::byte* const groups = panel;
    panel += steps_of(weight.type(), steps) * step_bytes(weight.type());
    const bool has_scales = is_last && weight.type() == WeightType::kInt8;
    const std::byte* next = panel;  // the next chunk, or the next panel
    for_parts(block.rows, parts, [&](int first, int count) {
      prefetch(next, chunk_bytes / parts);
      next += chunk_bytes / parts;
      float* sum = sums + first * kPanelRows;
      kMultiply[count]({.chunk = chunk,
                        .x = block.at(first, k),
                        .x_sums = block.sums_at(first, k),
                        .steps = steps,
                        .scales = has_scales ? reinterpret_cast<const float*>(panel) : nullptr,
                        .q4 = groups_if<PanelGroup>(weight.type() == WeightType::kQ4, groups),
                        .q8 = groups_if<PanelGroup8>(weight.type() == WeightType::kQ8, groups),
                        .sums = sum,
                        .is_first = k == 0,
                        .out = to_y ? y.row(first) : sum,
                        .out_stride = to_y ? y.stride : kPanelRows});
    });
  }
  for (int m = 0; y.width < kPanelRows && m < y.rows; ++m) {
    std::copy_n(sums + m * kPanelRows, y.width, y.row(m));
  }
}

}  // namespace

void BlockedMatmul::reserve(int width) {
  const std::size_t chunks = parts_of(width, kChunkSteps);
  const std::size_t size = chunks * (kChunkSteps + kChunkGroups) * kBlockRows;
  if (block_.size() < size) block_ = DeviceArray<float>(allocator_, size);
}

void BlockedMatmul::multiply(ThreadTeam& team, ConstDeviceRows x, const PackedMatrix& weight,
                             DeviceRows y) {
  reserve(x.width);  // another backend may have loaded the matrix
  const bool is_q4 = weight.type() == WeightType::kQ4;
  for_parts(x.rows, parts_of(x.rows, kBlockRows), [&](int first, int count) {
    const PackedBlock block = {block_.data(), count, x.width};
    team.run_ranges(count, [&](std::int64_t begin, std::int64_t end) {
      for (int r = begin; r < end; ++r) pack(x.row(first + r), r, is_q4, block);
    });
    team.run_stealing(weight.panels(), [&](std::int64_t panel) {
      const int column = panel * kPanelRows;
      const int columns = std::min(kPanelRows, y.width - column);
      multiply_panel(weight, panel, block, y.slice(first, count).columns(column, columns));
    });
  });
}

}  // namespace specdec::cpu
