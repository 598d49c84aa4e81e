#pragma once
#include <memory>
#include <span>

#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/thread_team.h"
#include "kernels/cpu/vector.h"

namespace specdec::cpu {

// A weight matrix in the order in which the matrix product reads it.
//
// A panel holds kPanelRows rows, two vectors' worth, so that the lanes of a vector are different
// outputs. Panel p is one contiguous block [width][kPanelRows]: for k = 0, 1, ... element k of each
// of its rows. One pass over a panel is one stream through memory, whatever the shape. The last
// panel is filled up with rows of zeros.
//
// Behind a panel of int8 stand the scales of its rows, [kPanelRows] float32.
//
// Where a row of the panel stands within a step k:
//   f32, f16, int8: row r at place r
//   bf16: row r < kLanes in the low half of the 32-bit word r, row kLanes + r in its upper half;
//         so a shift or a mask makes a vector of floats of it
inline constexpr int kPanelRows = 2 * kLanes;

class PackedMatrix : public WeightMatrix {
 public:
  // Packs in the team's threads. The allocator outlives the matrix.
  PackedMatrix(std::span<const HostMatrix> parts, WeightFormat format, DeviceAllocator& allocator,
               ThreadTeam& team);

  WeightType type() const { return type_; }
  int panels() const { return (rows() + kPanelRows - 1) / kPanelRows; }
  const std::byte* panel(std::int64_t p) const { return data_.data() + p * panel_bytes_; }

  // Row n as float32. out: [width].
  void read_row(int n, float* out) const;

 private:
  PackedMatrix(const StackedShape& shape, DeviceAllocator& allocator);
  void pack_panel(std::span<const HostMatrix> parts, std::int64_t p);
  const float* scales(const std::byte* panel) const;  // [kPanelRows] of an int8 panel

  WeightType type_;
  std::int64_t panel_bytes_;
  DeviceArray<std::byte> data_;
};

// y = x W^T. x: [T, W.width()]; y: [T, W.rows()].
void matmul(ThreadTeam& team, ConstDeviceRows x, const PackedMatrix& weight, DeviceRows y);

}  // namespace specdec::cpu
