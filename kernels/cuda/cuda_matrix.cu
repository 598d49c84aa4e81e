#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/quantize.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/cuda_matrix.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr std::size_t kStagingBytes = std::size_t{4} << 20;  // of quantized rows on the host
constexpr std::size_t kGroupBytes = kGroupElements / 2;      // of q4, without its scale

// A row takes a whole number of 16-byte loads.
std::size_t padded_row_bytes(const cpu::StackedShape& shape) {
  if (shape.type == WeightType::kQ4) return cpu::groups_of(shape.width) * kGroupBytes;
  return (shape.width * cpu::element_size(shape.type) + 15) / 16 * 16;
}

std::size_t scale_bytes_per_row(const cpu::StackedShape& shape) {
  if (shape.type == WeightType::kInt8) return sizeof(float);
  if (shape.type != WeightType::kQ4) return 0;
  return pairs_of(cpu::groups_of(shape.width)) * sizeof(ScalePair);
}

// Calls quantize(start, count) for all rows, with as many at a time as fit into the staging memory.
template <typename Quantize>
void for_rows(std::size_t rows, std::size_t row_bytes, const Quantize& quantize) {
  const std::size_t most = std::max<std::size_t>(kStagingBytes / row_bytes, 1);
  for (std::size_t start = 0; start < rows; start += most) {
    quantize(start, std::min(most, rows - start));
  }
}

void upload(void* to, const void* from, std::size_t bytes) {
  cuda_check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
}

// to: kGroupBytes.
void pack_q(const cpu::Q4Group& group, unsigned char* to) {
  std::uint32_t words[4] = {};
  for (int i = 0; i < kGroupElements; ++i) {
    words[q4_bit(i) / 32] |= std::uint32_t{group.q(i)} << q4_bit(i) % 32;
  }
  static_assert(sizeof words == kGroupBytes);
  std::memcpy(to, words, sizeof words);
}

}  // namespace

CudaMatrix::CudaMatrix(DeviceAllocator& allocator, std::span<const HostMatrix> parts,
                       WeightFormat format)
    : CudaMatrix(allocator, cpu::stacked_shape(parts, format)) {
  std::size_t first = 0;
  for (const HostMatrix& part : parts) {
    if (type_ == WeightType::kInt8) {
      quantize_int8(part, first);
    } else if (type_ == WeightType::kQ4) {
      quantize_q4(part, first);
    } else {
      copy(part, first);
    }
    first += part.rows;
  }
}

CudaMatrix::CudaMatrix(DeviceAllocator& allocator, const cpu::StackedShape& shape)
    : WeightMatrix(shape.rows, shape.width,
                   shape.rows * (padded_row_bytes(shape) + scale_bytes_per_row(shape))),
      type_(shape.type),
      row_bytes_(padded_row_bytes(shape)),
      data_(allocator, shape.rows * row_bytes_) {
  if (const std::size_t bytes = scale_bytes_per_row(shape); bytes > 0) {
    scales_ = DeviceArray<unsigned char>(allocator, shape.rows * bytes);
  }
}

// Copies from the checkpoint straight to the device, without a copy on the host.
void CudaMatrix::copy(const HostMatrix& part, std::size_t first) {
  const std::size_t rows = part.rows;
  const std::size_t from_bytes = part.bytes.size() / rows;
  unsigned char* to = data_.data() + first * row_bytes_;
  if (from_bytes < row_bytes_) cuda_check(cudaMemset(to, 0, rows * row_bytes_));
  cuda_check(cudaMemcpy2D(to, row_bytes_, part.bytes.data(), from_bytes, from_bytes, rows,
                          cudaMemcpyHostToDevice));
}

void CudaMatrix::quantize_int8(const HostMatrix& part, std::size_t first) {
  const std::size_t rows = part.rows, from_bytes = part.bytes.size() / rows;
  for_rows(rows, row_bytes_, [&](std::size_t start, std::size_t count) {
    std::vector<std::int8_t> staged(count * row_bytes_);  // rows are padded with zeros
    std::vector<float> scales(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::byte* from = part.bytes.data() + (start + i) * from_bytes;
      scales[i] = cpu::int8_scale(part.type, from, part.width);
      cpu::quantize(part.type, from, part.width, scales[i], staged.data() + i * row_bytes_);
    }
    upload(data_.data() + (first + start) * row_bytes_, staged.data(), staged.size());
    upload(scales_.data() + (first + start) * sizeof(float), scales.data(), count * sizeof(float));
  });
}

// Groups of a file stay as they are.
void CudaMatrix::quantize_q4(const HostMatrix& part, std::size_t first) {
  const std::size_t rows = part.rows, from_bytes = part.bytes.size() / rows;
  const std::size_t group_count = cpu::groups_of(part.width);
  const std::size_t pairs = pairs_of(cpu::groups_of(part.width));
  std::vector<cpu::Q4Group> groups(group_count);
  for_rows(rows, row_bytes_, [&](std::size_t start, std::size_t count) {
    std::vector<unsigned char> staged(count * row_bytes_);
    std::vector<ScalePair> scales(pairs * count);  // [pairs][count]
    for (std::size_t i = 0; i < count; ++i) {
      const std::byte* from = part.bytes.data() + (start + i) * from_bytes;
      if (part.type == WeightType::kQ4) {
        std::memcpy(groups.data(), from, from_bytes);
      } else {
        cpu::quantize_q4(part.type, from, part.width, groups.data());
      }
      for (std::size_t g = 0; g < group_count; ++g) {
        pack_q(groups[g], staged.data() + i * row_bytes_ + g * kGroupBytes);
        scales[g / 2 * count + i].of[g % 2] = {groups[g].scale, groups[g].minimum};
      }
    }
    upload(data_.data() + (first + start) * row_bytes_, staged.data(), staged.size());
    const std::size_t pitch = static_cast<std::size_t>(this->rows()) * sizeof(ScalePair);
    cuda_check(cudaMemcpy2D(scales_.data() + (first + start) * sizeof(ScalePair), pitch,
                            scales.data(), count * sizeof(ScalePair), count * sizeof(ScalePair),
                            pairs, cudaMemcpyHostToDevice));
  });
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
