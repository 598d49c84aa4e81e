#pragma once
#include "kernels/cpu/packed_matrix.h"

namespace specdec::cpu {

// Rows of x as the product for few rows reads them. Every panel reads them, so they are prepared
// once per product. For q4 a row is
//   x[k] / 16^(k % PanelGroup::kInWord), [groups x kGroupElements], with zeros past the end of x
//   the sums of x over each group, [groups]
// For other types it is x itself, but the rows may lie farther apart.
class PreparedRows {
 public:
  // The allocator outlives it.
  explicit PreparedRows(DeviceAllocator& allocator) : allocator_(allocator) {}

  // Allocates the memory for up to `rows` rows of this width, so that no product has to.
  void reserve(WeightType type, int rows, int width);

  // x, [M, K], or a copy of it, which is as wide and is valid until the next call. at_once: the
  // number of rows that share a pass.
  ConstDeviceRows of(ConstDeviceRows x, WeightType type, int at_once);

 private:
  DeviceAllocator& allocator_;
  DeviceArray<float> rows_;
};

}  // namespace specdec::cpu
