#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/quantize.h"
#include "kernels/cuda/cuda_matrix.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr std::size_t kStagingBytes = std::size_t{4}
                                      << 20;  // of padded or quantized rows on the host

// The bytes of a group without its scale.
constexpr std::size_t q_bytes(WeightType type) {
  return type == WeightType::kQ4 ? kGroupElements / 2 : kGroupElements;
}

// A row takes a whole number of 16-byte loads.
std::size_t padded_row_bytes(const cpu::StackedShape& shape) {
  if (is_grouped(shape.type)) return cpu::groups_of(shape.width) * q_bytes(shape.type);
  return (shape.width * cpu::element_size(shape.type) + 15) / 16 * 16;
}

std::size_t scale_bytes_per_row(const cpu::StackedShape& shape) {
  if (shape.type == WeightType::kInt8) return sizeof(float);
  if (!is_grouped(shape.type)) return 0;
  return pairs_of(cpu::groups_of(shape.width)) *
         (shape.type == WeightType::kQ4 ? sizeof(ScalePair<Q4Scale>) : sizeof(ScalePair<Q8Scale>));
}

// Calls job(start, count) for all rows of a part, for as many at a time as fit into the staging
// memory.
template <typename Job>
void with_some_rows(std::size_t rows, std::size_t row_bytes, const Job& job) {
  const std::size_t most = std::clamp<std::size_t>(kStagingBytes / row_bytes, 1, rows);
  for (std::size_t start = 0; start < rows; start += most) job(start, std::min(most, rows - start));
}

// Stores the q of a group as the device has them. REQUIRES: `to` is filled with zeros.
void pack_q(const cpu::Q4Group& group, unsigned char* to) {
  for (int i = 0; i < kGroupElements; ++i) to[q4_bit(i) / 8] |= group.q(i) << q4_bit(i) % 8;
}
void pack_q(const cpu::Q8Group& group, unsigned char* to) {
  for (int i = 0; i < kGroupElements; ++i) to[q8_byte(i)] = static_cast<unsigned char>(group.q[i]);
}
Q4Scale scale_of(const cpu::Q4Group& group) { return {group.scale, group.minimum}; }
Q8Scale scale_of(const cpu::Q8Group& group) { return {group.scale}; }

}  // namespace

CudaMatrix::CudaMatrix(Backend& backend, std::span<const HostMatrix> parts, WeightFormat format)
    : CudaMatrix(backend, cpu::stacked_shape(parts, format)) {
  std::size_t first = 0;
  for (const HostMatrix& part : parts) {
    if (type_ == WeightType::kInt8) {
      quantize_int8(backend, part, first);
    } else if (type_ == WeightType::kQ4) {
      pack_groups<cpu::Q4Group>(backend, part, first);
    } else if (type_ == WeightType::kQ8) {
      pack_groups<cpu::Q8Group>(backend, part, first);
    } else {
      copy(backend, part, first);
    }
    first += part.rows;
  }
}

CudaMatrix::CudaMatrix(Backend& backend, const cpu::StackedShape& shape)
    : WeightMatrix(shape.rows, shape.width,
                   shape.rows * (padded_row_bytes(shape) + scale_bytes_per_row(shape))),
      type_(shape.type),
      row_bytes_(padded_row_bytes(shape)),
      data_(backend, shape.rows * row_bytes_) {
  if (const std::size_t bytes = scale_bytes_per_row(shape); bytes > 0) {
    scales_ = DeviceArray<unsigned char>(backend, shape.rows * bytes);
  }
}

// Straight from the checkpoint if no row needs padding.
void CudaMatrix::copy(Backend& backend, const HostMatrix& part, std::size_t first) {
  const std::size_t rows = part.rows, from_bytes = part.bytes.size() / rows;
  unsigned char* const to = data_.data() + first * row_bytes_;
  if (from_bytes == row_bytes_) return backend.upload(part.bytes.data(), to, part.bytes.size());
  with_some_rows(rows, row_bytes_, [&](std::size_t start, std::size_t count) {
    std::vector<std::byte> staged(count * row_bytes_);  // rows are padded with zeros
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(staged.data() + i * row_bytes_, part.bytes.data() + (start + i) * from_bytes,
                  from_bytes);
    }
    backend.upload(staged.data(), to + start * row_bytes_, staged.size());
  });
}

void CudaMatrix::quantize_int8(Backend& backend, const HostMatrix& part, std::size_t first) {
  const std::size_t rows = part.rows, from_bytes = part.bytes.size() / rows;
  with_some_rows(rows, row_bytes_, [&](std::size_t start, std::size_t count) {
    std::vector<std::int8_t> staged(count * row_bytes_);  // rows are padded with zeros
    std::vector<float> scales(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::byte* from = part.bytes.data() + (start + i) * from_bytes;
      scales[i] = cpu::int8_scale(part.type, from, part.width);
      cpu::quantize(part.type, from, part.width, scales[i], staged.data() + i * row_bytes_);
    }
    backend.upload(staged.data(), data_.data() + (first + start) * row_bytes_, staged.size());
    backend.upload(scales.data(), scales_.data() + (first + start) * sizeof(float),
                   count * sizeof(float));
  });
}

// Groups of a file stay as they are.
template <typename Group>
void CudaMatrix::pack_groups(Backend& backend, const HostMatrix& part, std::size_t first) {
  using Pair = ScalePair<decltype(scale_of(Group()))>;
  const std::size_t rows = part.rows, from_bytes = part.bytes.size() / rows;
  const std::size_t group_count = cpu::groups_of(part.width), pairs = pairs_of(group_count);
  std::vector<Group> groups(group_count);
  with_some_rows(rows, row_bytes_, [&](std::size_t start, std::size_t count) {
    std::vector<unsigned char> staged(count * row_bytes_);
    std::vector<Pair> scales(pairs * count);  // [pairs][count]
    for (std::size_t i = 0; i < count; ++i) {
      const std::byte* from = part.bytes.data() + (start + i) * from_bytes;
      if (is_grouped(part.type)) {
        std::memcpy(groups.data(), from, from_bytes);
      } else if constexpr (std::is_same_v<Group, cpu::Q4Group>) {
        cpu::quantize_q4(part.type, from, part.width, groups.data());
      }
      for (std::size_t g = 0; g < group_count; ++g) {
        pack_q(groups[g], staged.data() + i * row_bytes_ + g * q_bytes(type_));
        scales[g / 2 * count + i].of[g % 2] = scale_of(groups[g]);
      }
    }
    backend.upload(staged.data(), data_.data() + (first + start) * row_bytes_, staged.size());
    const std::size_t of_all = static_cast<std::size_t>(this->rows());
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      const std::size_t at = (pair * of_all + first + start) * sizeof(Pair);
      backend.upload(scales.data() + pair * count, scales_.data() + at, count * sizeof(Pair));
    }
  });
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
