#include <algorithm>
#include <vector>

#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/quantize.h"
#include "kernels/cpu/require.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/cuda_matrix.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr std::size_t kStagingBytes = std::size_t{4} << 20;  // of quantized rows on the host

// A row takes a whole number of 16-byte loads.
std::size_t padded_row_bytes(const cpu::StackedShape& shape) {
  return (shape.width * cpu::element_size(shape.type) + 15) / 16 * 16;
}

}  // namespace

CudaMatrix::CudaMatrix(DeviceAllocator& allocator, std::span<const HostMatrix> parts,
                       WeightFormat format)
    : CudaMatrix(allocator, cpu::stacked_shape(parts, format)) {
  cpu::require(type_ != WeightType::kQ4, "weights of whole bytes");
  if (type_ == WeightType::kInt8) {
    scales_ = DeviceArray<float>(allocator, rows());
  }
  std::size_t first = 0;
  for (const HostMatrix& part : parts) {
    if (type_ == WeightType::kInt8) {
      quantize(part, first);
    } else {
      copy(part, first);
    }
    first += part.rows;
  }
}

CudaMatrix::CudaMatrix(DeviceAllocator& allocator, const cpu::StackedShape& shape)
    : WeightMatrix(shape.rows, shape.width,
                   shape.rows * (padded_row_bytes(shape) +
                                 (shape.type == WeightType::kInt8 ? sizeof(float) : 0))),
      type_(shape.type),
      row_bytes_(padded_row_bytes(shape)),
      data_(allocator, shape.rows * row_bytes_) {}

// Copies from the checkpoint straight to the device, without a copy on the host.
void CudaMatrix::copy(const HostMatrix& part, std::size_t first) {
  const std::size_t rows = part.rows;
  const std::size_t from_bytes = part.bytes.size() / rows;
  unsigned char* to = data_.data() + first * row_bytes_;
  if (from_bytes < row_bytes_) cuda_check(cudaMemset(to, 0, rows * row_bytes_));
  cuda_check(cudaMemcpy2D(to, row_bytes_, part.bytes.data(), from_bytes, from_bytes, rows,
                          cudaMemcpyHostToDevice));
}

// Quantises to int8, some rows at a time.
void CudaMatrix::quantize(const HostMatrix& part, std::size_t first) {
  const std::size_t rows = part.rows;
  const std::size_t from_bytes = part.bytes.size() / rows;
  const std::size_t most = std::clamp<std::size_t>(kStagingBytes / row_bytes_, 1, rows);
  std::vector<std::int8_t> staged(most * row_bytes_);  // rows are padded with zeros
  std::vector<float> scales(most);
  for (std::size_t start = 0; start < rows; start += most) {
    const std::size_t count = std::min(most, rows - start);
    for (std::size_t i = 0; i < count; ++i) {
      const std::byte* from = part.bytes.data() + (start + i) * from_bytes;
      scales[i] = cpu::int8_scale(part.type, from, part.width);
      cpu::quantize(part.type, from, part.width, scales[i], staged.data() + i * row_bytes_);
    }
    cuda_check(cudaMemcpy(data_.data() + (first + start) * row_bytes_, staged.data(),
                          count * row_bytes_, cudaMemcpyHostToDevice));
    cuda_check(cudaMemcpy(scales_.data() + first + start, scales.data(), count * sizeof(float),
                          cudaMemcpyHostToDevice));
  }
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
