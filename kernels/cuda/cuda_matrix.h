#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cpu/host_backend.h"
#include "kernels/cuda/runtime.h"
#include "kernels/ops.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// The lowest bit of element i's q in a q4 group, which has 16 bytes. Word c has what lane c of
// four multiplies in two steps of 16 inputs: inputs b .. b + 3 and b + 8 .. b + 11 of the group,
// with b = 4 (c % 2) + 16 (c / 2). Their order is 0 2 4 6 1 3 5 7, so that a shift and a mask put
// two neighbours into the halves of a word.
__host__ __device__ constexpr int q4_bit(int i) {
  const int word = i / 16 * 2 + i / 4 % 2, number = i / 8 % 2 * 4 + i % 4;
  return 32 * word + 4 * (number / 2 + number % 2 * 4);
}

// The byte of element i's q in a q8 group, which has 32 bytes. In each half, the two words in the
// middle have changed places. So what lane c multiplies in two steps, see q4_bit(), are the bytes
// 8 c .. 8 c + 7.
__host__ __device__ constexpr int q8_byte(int i) {
  const int word = i / 4 % 4;
  return i / 16 * 16 + 4 * (word % 2 * 2 + word / 2) + i % 4;
}

// What the numbers of a group are multiplied by, and what is added; binary16.
struct alignas(4) Q4Scale {
  std::uint16_t scale, minimum;
};
struct Q8Scale {
  std::uint16_t scale;
};
// Of two neighbouring groups of a row; of the second, zeros past the row's end.
template <typename Scale>
struct alignas(2 * sizeof(Scale)) ScalePair {
  Scale of[2];
};
__host__ __device__ constexpr int pairs_of(int groups) { return (groups + 1) / 2; }

// A weight matrix in device memory: row-major, each row padded with zeros to a multiple of 16
// bytes. A row of groups has 16 bytes per q4 group, or 32 per q8 group, in the order of q4_bit() or
// q8_byte(); the scales are apart.
class CudaMatrix final : public WeightMatrix {
 public:
  // Uploads the parts, one below the other, with at most a few MiB of extra host memory. The
  // backend is CUDA's, and outlives the matrix.
  CudaMatrix(Backend& backend, std::span<const HostMatrix> parts, WeightFormat format);

  WeightType type() const { return type_; }
  const void* data() const { return data_.data(); }
  std::size_t row_bytes() const { return row_bytes_; }  // from one row to the next
  // Of int8: float[rows]. Of groups: ScalePair[pairs][rows], so that a block, which multiplies
  // neighbouring rows, reads one piece of memory. Otherwise null.
  const void* scales() const { return scales_.data(); }

 private:
  CudaMatrix(Backend& backend, const cpu::StackedShape& shape);
  // Fill rows first, first + 1, ...
  void copy(Backend& backend, const HostMatrix& part, std::size_t first);
  void quantize_int8(Backend& backend, const HostMatrix& part, std::size_t first);
  template <typename Group>
  void pack_groups(Backend& backend, const HostMatrix& part, std::size_t first);

  WeightType type_;
  std::size_t row_bytes_;
  DeviceArray<unsigned char> data_, scales_;
};

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
