#pragma once
#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/thread_team.h"

namespace specdec::cpu {

// The matrix product for many rows, as in a prefill. It is not bound by memory, so what counts is
// that the arithmetic never waits for a cache. It has the same chains of multiply-adds as matmul(),
// and so gives the same bits.
class BlockedMatmul {
 public:
  static constexpr int kFewestRows = 48;  // from here on it is faster than matmul()

  // The allocator outlives it.
  explicit BlockedMatmul(DeviceAllocator& allocator) : allocator_(allocator) {}

  // Allocates the memory for matrices of this width, so that no product has to.
  void reserve(int width);

  // y = x W^T. x: [T, W.width()]; y: [T, W.rows()].
  void multiply(ThreadTeam& team, ConstDeviceRows x, const PackedMatrix& weight, DeviceRows y);

 private:
  DeviceAllocator& allocator_;
  DeviceArray<float> block_;  // of x, packed
};

}  // namespace specdec::cpu
