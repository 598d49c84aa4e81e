#include "kernels/cpu/grouped_rows.h"

#include <algorithm>

#include "kernels/cpu/panel_steps.h"

namespace specdec::cpu {
namespace {

std::ptrdiff_t stride_of(int width) {
  const int floats = groups_of(width) * (kGroupElements + 1);
  return parts_of(floats, kLanes) * std::ptrdiff_t{kLanes};
}

}  // namespace

void GroupedRows::reserve(int rows, int width) {
  const std::size_t size = rows * stride_of(width);
  if (rows_.size() < size) rows_ = DeviceArray<float>(allocator_, size);
}

ConstDeviceRows GroupedRows::of(ConstDeviceRows x) {
  reserve(x.rows, x.width);  // another backend may have loaded the matrix
  const std::ptrdiff_t stride = stride_of(x.width);
  const int groups = groups_of(x.width), padded = groups * kGroupElements;
  for (int m = 0; m < x.rows; ++m) {
    float* const row = rows_.data() + m * stride;
    std::fill(std::copy_n(x.row(m), x.width, row), row + padded, 0.0f);
    prepare_for_groups(row, groups, row + padded);
  }
  return {rows_.data(), x.rows, x.width, stride};
}

}  // namespace specdec::cpu
