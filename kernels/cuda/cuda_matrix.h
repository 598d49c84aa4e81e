#pragma once
#include <cstddef>
#include <span>

#include "kernels/cpu/host_backend.h"
#include "kernels/cuda/runtime.h"
#include "kernels/ops.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// A weight matrix in device memory: row-major, each row padded with zeros to a multiple of 16
// bytes.
class CudaMatrix final : public WeightMatrix {
 public:
  // Copies the parts, one below the other, with at most a few MiB of extra host memory. The
  // allocator outlives the matrix.
  CudaMatrix(DeviceAllocator& allocator, std::span<const HostMatrix> parts, WeightFormat format);

  WeightType type() const { return type_; }
  const void* data() const { return data_.data(); }
  std::size_t row_bytes() const { return row_bytes_; }    // from one row to the next
  const float* scales() const { return scales_.data(); }  // [rows] of int8; otherwise null

 private:
  CudaMatrix(DeviceAllocator& allocator, const cpu::StackedShape& shape);
  // Fill rows first, first + 1, ...
  void copy(const HostMatrix& part, std::size_t first);
  void quantize(const HostMatrix& part, std::size_t first);

  WeightType type_;
  std::size_t row_bytes_;
  DeviceArray<unsigned char> data_;
  DeviceArray<float> scales_;
};

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
