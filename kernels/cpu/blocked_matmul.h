#pragma once
#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/thread_team.h"

namespace specdec::cpu {

// The matrix product of many rows, as of a prefill: it does not wait for memory, so all that counts
// is that the arithmetic never waits for a cache. The same chains of multiply-adds as matmul(), so
// the same bits.
class BlockedMatmul {
 public:
  static constexpr int kFewestRows = 48;  // from which on it is the faster one

  // The allocator outlives it.
  explicit BlockedMatmul(DeviceAllocator& allocator) : allocator_(allocator) {}

  // Takes what memory matrices of this width need, so that no product has to.
  void reserve(int width);

  // y = x W^T. x: [T, W.width()]; y: [T, W.rows()].
  void multiply(ThreadTeam& team, ConstDeviceRows x, const PackedMatrix& weight, DeviceRows y);

 private:
  DeviceAllocator& allocator_;
  DeviceArray<float> block_;  // of x, packed
};

}  // namespace specdec::cpu
