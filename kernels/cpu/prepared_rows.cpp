#include "kernels/cpu/prepared_rows.h"

#include <algorithm>

#include "kernels/cpu/panel_steps.h"

namespace specdec::cpu {
namespace {

// Addresses that are a multiple of 4 KiB apart share a set of the first-level cache, which has room
// for 8 lines on a Zen 4, and for 12 on a Sapphire Rapids. If all rows of a pass share one, they
// evict each other and the panel. (12 rows of 2,048 then took 1.19 to 1.40 times their bound on a
// Zen 4, and 1.12 times with a line between the rows; 8 rows differed by 1 %.)
constexpr int kSameSet = 4096 / sizeof(float), kManyRows = 9, kLine = 64 / sizeof(float);

bool evict_each_other(std::ptrdiff_t stride, int at_once) {
  return at_once >= kManyRows && stride % kSameSet == 0;
}

std::ptrdiff_t stride_of(WeightType type, int width) {
  if (type != WeightType::kQ4) return width + kLine;
  const int floats = groups_of(width) * (kGroupElements + 1);
  return parts_of(floats, kLanes) * std::ptrdiff_t{kLanes};
}

}  // namespace

void PreparedRows::reserve(WeightType type, int rows, int width) {
  const std::size_t size = rows * stride_of(type, width);
  if (rows_.size() < size) rows_ = DeviceArray<float>(allocator_, size);
}

ConstDeviceRows PreparedRows::of(ConstDeviceRows x, WeightType type, int at_once) {
  const bool is_q4 = type == WeightType::kQ4;
  if (!is_q4 && !evict_each_other(x.stride, at_once)) return x;
  reserve(type, x.rows, x.width);  // another backend may have loaded the matrix
  const std::ptrdiff_t stride = stride_of(type, x.width);
  const int groups = groups_of(x.width), padded = groups * kGroupElements;
  for (int m = 0; m < x.rows; ++m) {
    float* const row = rows_.data() + m * stride;
    float* const end = std::copy_n(x.row(m), x.width, row);
    if (!is_q4) continue;
    std::fill(end, row + padded, 0.0f);
    prepare_for_groups(row, groups, row + padded);
  }
  return {rows_.data(), x.rows, x.width, stride};
}

}  // namespace specdec::cpu
