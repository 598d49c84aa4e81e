#include <algorithm>
#include <array>
#include <utility>

#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/panel_steps.h"
#include "kernels/cpu/prepared_rows.h"

namespace specdec::cpu {
namespace {

// The most rows of x that share a pass over a panel: their sums, two vectors per row, stay in
// registers, beside a step's two vectors and an element of x.
constexpr int kTileRows = kRegisters < 32 ? 6 : 12;

// Where a pass over a panel prefetches to.
struct Ahead {
  const std::byte* from;
  std::ptrdiff_t step;  // from one step of the pass to the next
};

// Prefetches a panel into both caches before its use, because the processor's own prefetcher does
// not keep up when there is arithmetic between two loads. The second level is far ahead, because
// memory is slow; the first is only a little ahead, because otherwise it evicts the line again.
// (Measured on a Sapphire Rapids at 34 GB/s: 8 to 64 KiB, and 1 to 2.5 KiB, differ by less than the
// noise.) Addresses past the end of the matrix do no harm.
constexpr std::ptrdiff_t kFar = 16 << 10, kNear = 3 << 9;

template <WeightType type, int M>
void multiply_tile(const std::byte* panel,  // of K elements, and the scales of int8
                   const float* x, std::ptrdiff_t x_stride, int width,  // [M, K]; q4: PreparedRows
                   float* y, std::ptrdiff_t y_stride,                   // [M, kPanelRows]
                   Ahead far) {
  TileSums<M> sums;
  const std::byte* near = panel + kNear;
  const auto prefetch_step = [&] {
    SPECDEC_UNROLL
    for (std::ptrdiff_t line = 0; line < kStepBytes<type>; line += 64) {
      __builtin_prefetch(far.from + line, /*write=*/0, /*locality=*/2);
      __builtin_prefetch(near + line, /*write=*/0, /*locality=*/3);
    }
    far.from += far.step;
    near += kStepBytes<type>;
  };
  if constexpr (type == WeightType::kQ4) {
    add_groups(reinterpret_cast<const PanelGroup*>(panel), x, x_stride, width, prefetch_step, sums);
  } else if constexpr (type == WeightType::kQ8) {
    add_groups(reinterpret_cast<const PanelGroup8*>(panel), x, x_stride, width, prefetch_step,
               sums);
  } else {
    add_steps<type, M>(panel, x, x_stride, width, prefetch_step, sums);
  }
  if constexpr (type == WeightType::kInt8) {
    scale(reinterpret_cast<const float*>(panel + width * kStepBytes<type>), sums);
  }
  store_sums(sums, y, y_stride);
}

using Tile = void (*)(const std::byte*, const float*, std::ptrdiff_t, int, float*, std::ptrdiff_t,
                      Ahead);
using Tiles = std::array<Tile, kTileRows + 1>;  // by the number of rows

template <WeightType type>
constexpr Tiles kTilesOf = []<int... M>(std::integer_sequence<int, M...>) {
  return Tiles{nullptr, multiply_tile<type, M + 1>...};
}
(std::make_integer_sequence<int, kTileRows>());

const Tiles& tiles_for(WeightType type) {
  switch (type) {
    case WeightType::kF32:
      return kTilesOf<WeightType::kF32>;
    case WeightType::kF16:
      return kTilesOf<WeightType::kF16>;
    case WeightType::kInt8:
      return kTilesOf<WeightType::kInt8>;
    case WeightType::kQ4:
      return kTilesOf<WeightType::kQ4>;
    case WeightType::kQ8:
      return kTilesOf<WeightType::kQ8>;
    default:
      return kTilesOf<WeightType::kBF16>;
  }
}

// x: [T, K]; y: [T, up to kPanelRows].
void multiply_panel(const PackedMatrix& weight, std::int64_t p, ConstDeviceRows x, DeviceRows y) {
  const std::byte* panel = weight.panel(p);
  const int passes = parts_of(x.rows, kTileRows);
  // A single pass prefetches what it reads itself. Several passes share the next panel, so that
  // memory is never idle.
  Ahead far = {passes == 1 ? panel + kFar : weight.panel(p + 1),
               step_bytes(weight.type()) / passes};
  for_parts(x.rows, passes, [&](int first, int count) {
    const Tile tile = tiles_for(weight.type())[count];
    float whole[kTileRows][kPanelRows];  // the last panel may have fewer outputs than a tile
    const bool is_whole = y.width == kPanelRows;
    tile(panel, x.row(first), x.stride, x.width, is_whole ? y.row(first) : whole[0],
         is_whole ? y.stride : kPanelRows, far);
    for (int m = 0; !is_whole && m < count; ++m) std::copy_n(whole[m], y.width, y.row(first + m));
    far.from += far.step * steps_of(weight.type(), x.width);
  });
}

}  // namespace

// Every output is one chain of fused multiply-adds over k. The lanes of a vector are different
// outputs, and no two rows or threads share one. So neither their number nor the vector's width can
// change a bit.
void matmul(ThreadTeam& team, ConstDeviceRows x, const PackedMatrix& weight, PreparedRows& prepared,
            DeviceRows y) {
  const int passes = parts_of(x.rows, kTileRows);
  x = prepared.of(x, weight.type(), parts_of(x.rows, passes));
  team.run_stealing(weight.panels(), [&](std::int64_t panel) {
    const int column = panel * kPanelRows;
    const int columns = std::min(kPanelRows, y.width - column);
    multiply_panel(weight, panel, x, y.columns(column, columns));
  });
}

}  // namespace specdec::cpu
