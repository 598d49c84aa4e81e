#pragma once
#include "kernels/cpu/packed_matrix.h"

namespace specdec::cpu {

// Rows of x as the product for few rows reads them if the weights are q4. Every panel reads them,
// so they are made once per product. A row is
//   x[k] / 16^(k % PanelGroup::kInWord), [groups x kGroupElements], with zeros past the end of x
//   the sums of x over each group, [groups]
class GroupedRows {
 public:
  // The allocator outlives it.
  explicit GroupedRows(DeviceAllocator& allocator) : allocator_(allocator) {}

  // Allocates the memory for up to `rows` rows of this width, so that no product has to.
  void reserve(int rows, int width);

  // Valid until the next call. It is as wide as x; its stride is that of the rows above.
  ConstDeviceRows of(ConstDeviceRows x);  // [M, K]

 private:
  DeviceAllocator& allocator_;
  DeviceArray<float> rows_;
};

}  // namespace specdec::cpu
