#include <cstring>
#include <vector>

#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/int8.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/cuda_matrix.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

// From one row to the next: whole 16 byte loads.
std::size_t padded_row_bytes(const cpu::StackedShape& shape) {
  return (static_cast<std::size_t>(shape.width) * cpu::element_size(shape.type) + 15) / 16 * 16;
}

}  // namespace

CudaMatrix::CudaMatrix(DeviceAllocator& allocator, std::span<const HostMatrix> parts,
                       WeightFormat format)
    : CudaMatrix(allocator, cpu::stacked_shape(parts, format)) {
  std::vector<float> scales;
  std::vector<unsigned char> packed;  // a part at a time
  std::size_t offset = 0;
  for (const HostMatrix& part : parts) {
    const auto rows = static_cast<std::size_t>(part.rows);
    const std::size_t from_bytes = part.bytes.size() / rows;
    packed.assign(rows * row_bytes_, 0);
    for (std::size_t n = 0; n < rows; ++n) {
      const std::byte* from = part.bytes.data() + n * from_bytes;
      unsigned char* to = packed.data() + n * row_bytes_;
      if (type_ == WeightType::kInt8) {
        scales.push_back(cpu::int8_scale(part.type, from, part.width));
        cpu::quantize(part.type, from, part.width, scales.back(),
                      reinterpret_cast<std::int8_t*>(to));
      } else {
        std::memcpy(to, from, from_bytes);
      }
    }
    cuda_check(
        cudaMemcpy(data_.data() + offset, packed.data(), packed.size(), cudaMemcpyHostToDevice));
    offset += packed.size();
  }
  if (type_ == WeightType::kInt8) {
    scales_ = DeviceArray<float>(allocator, scales.size());
    cuda_check(cudaMemcpy(scales_.data(), scales.data(), scales.size() * sizeof(float),
                          cudaMemcpyHostToDevice));
  }
}

CudaMatrix::CudaMatrix(DeviceAllocator& allocator, const cpu::StackedShape& shape)
    : WeightMatrix(
          shape.rows, shape.width,
          static_cast<std::size_t>(shape.rows) *
              (padded_row_bytes(shape) + (shape.type == WeightType::kInt8 ? sizeof(float) : 0))),
      type_(shape.type),
      row_bytes_(padded_row_bytes(shape)),
      data_(allocator, static_cast<std::size_t>(shape.rows) * row_bytes_) {}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
