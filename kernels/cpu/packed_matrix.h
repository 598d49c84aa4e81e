#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/quantize.h"
#include "kernels/cpu/thread_team.h"
#include "kernels/cpu/vector.h"

namespace specdec::cpu {

// A weight matrix in the order in which the matrix product reads it.
//
// A panel holds kPanelRows rows, enough for two vectors, so the lanes of a vector are different
// outputs. Panel p is one contiguous block [width][kPanelRows]: for k = 0, 1, ... element k of each
// of its rows. One pass over a panel is one stream through memory, whatever the shape. The last
// panel is padded with rows of zeros.
//
// After the elements of an int8 panel come the scales of its rows, [kPanelRows] float32.
//
// The order of a panel's rows within a step k:
//   f32, f16, int8: row r at index r
//   bf16: row r < kLanes in the low half of the 32-bit word r, row kLanes + r in its upper half,
//         so that a shift or a mask turns the words into a vector of floats
//
// A panel of q4 is a PanelGroup for each kGroupElements steps, one of q8 a PanelGroup8.
inline constexpr int kPanelRows = 2 * kLanes;

// kGroupElements steps of a q4 panel. Step k of row r is in bits 4 (k % 8) .. 4 (k % 8) + 3 of
// words[r / kLanes][k / 8][r % kLanes], so that a mask leaves one step of all lanes.
struct PanelGroup {
  static constexpr int kInWord = 8;

  std::uint16_t scales[kPanelRows], minimums[kPanelRows];  // binary16
  std::uint32_t words[2][kGroupElements / kInWord][kLanes];
};
static_assert(sizeof(PanelGroup) == kPanelRows * sizeof(Q4Group));

// kGroupElements steps of a q8 panel, each as a step of int8.
struct PanelGroup8 {
  std::uint16_t scales[kPanelRows];  // binary16
  std::int8_t q[kGroupElements][kPanelRows];

  const std::byte* steps() const { return reinterpret_cast<const std::byte*>(q); }
};
static_assert(sizeof(PanelGroup8) == kPanelRows * sizeof(Q8Group));

class PackedMatrix : public WeightMatrix {
 public:
  // Packs with all threads of the team. The allocator outlives the matrix.
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
  template <typename Group>
  void read_row_of_groups(int n, float* out) const;

  WeightType type_;
  std::int64_t panel_bytes_;
  DeviceArray<std::byte> data_;
};

class PreparedRows;

// y = x W^T. x: [T, W.width()]; y: [T, W.rows()].
void matmul(ThreadTeam& team, ConstDeviceRows x, const PackedMatrix& weight, PreparedRows& prepared,
            DeviceRows y);

}  // namespace specdec::cpu
