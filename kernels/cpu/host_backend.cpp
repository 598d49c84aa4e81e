#include "kernels/cpu/host_backend.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include <sys/mman.h>

#include "kernels/cpu/half.h"
#include "kernels/cpu/quantize.h"
#include "kernels/cpu/require.h"

namespace specdec::cpu {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

void copy_row(const float* from, float* to, int count) {
  if (count == 1) {  // a list of numbers, where a call would take most of the time
    *to = *from;
    return;
  }
  std::memcpy(to, from, count * sizeof(float));
}
void copy_row(const float* from, BFloat16* to, int count) {
  for (int i = 0; i < count; ++i) to[i] = {bf16_from_float(from[i])};
}

}  // namespace

void* HostBackend::allocate(std::size_t bytes) {
  // A stream through memory misses the TLB at each 4 KiB page, or at each 2 MiB if the system
  // grants huge pages. The size must be a multiple of the alignment.
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kCacheLine;
  const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + alignment - 1) & ~(alignment - 1);
  void* block = rounded >= bytes ? std::aligned_alloc(alignment, rounded) : nullptr;
  if (block == nullptr) throw std::bad_alloc();
  if (alignment == kHugePage) madvise(block, rounded, MADV_HUGEPAGE);  // a hint: failure is fine
  return block;
}

void HostBackend::deallocate(void* block) { std::free(block); }

void HostBackend::upload(const void* host, void* device, std::size_t bytes) {
  if (bytes > 0) std::memcpy(device, host, bytes);
}

void HostBackend::download(const void* device, void* host, std::size_t bytes) {
  if (bytes > 0) std::memcpy(host, device, bytes);
}

Parcel HostBackend::parcel(std::size_t bytes) {
  if (parcel_.size() < bytes) parcel_.resize(bytes);
  return {parcel_.data(), parcel_.data()};
}

void HostBackend::copy(const void* from, void* to, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void HostBackend::gather_rows(ConstDeviceRows x,         // [any, width]
                              const std::int32_t* rows,  // [T]
                              DeviceRows out) {          // [T, width]
  require(x.width == out.width, "x and out of the same width");
  for (int t = 0; t < out.rows; ++t) {
    require(0 <= rows[t] && rows[t] < x.rows, "row numbers inside x");
    copy_row(x.row(rows[t]), out.row(t), x.width);
  }
}

void HostBackend::store_kv(ConstDeviceRows k, ConstDeviceRows v,  // [T, Hkv * D]
                           const RowPlaces& places, KvLayer cache) {
  require_same_shape(k, v);
  with_rows(cache, [&](auto rows) {
    for (int t = 0; t < k.rows; ++t) {
      const std::ptrdiff_t offset = std::ptrdiff_t{places.slots[t]} * k.width;
      copy_row(k.row(t), rows.keys + offset, k.width);
      copy_row(v.row(t), rows.values + offset, v.width);
    }
  });
}

void HostBackend::argmax_on_device(ConstDeviceRows x, std::int32_t* ids) {
  argmax(x, std::span(ids, x.rows));
}

void HostBackend::fill(DeviceRows x, float value) {
  for (int t = 0; t < x.rows; ++t) std::fill_n(x.row(t), x.width, value);
}

void HostBackend::rope_angles(const std::int32_t* positions,  // [T]
                              const float* frequencies,       // [D / 2]
                              DeviceRows cosines,             // [T, D / 2]
                              DeviceRows sines) {             // [T, D / 2]
  require_same_shape(cosines, sines);
  for (int t = 0; t < cosines.rows; ++t) {
    const float position = positions[t];
    for (int i = 0; i < cosines.width; ++i) {
      const float angle = position * frequencies[i];
      cosines.row(t)[i] = std::cos(angle);
      sines.row(t)[i] = std::sin(angle);
    }
  }
}

std::size_t element_size(WeightType type) {
  require(!is_grouped(type), "elements of whole bytes");
  return type == WeightType::kF32 ? 4 : type == WeightType::kInt8 ? 1 : 2;
}

std::size_t row_bytes(const StackedShape& shape) {
  if (is_grouped(shape.type)) return groups_of(shape.width) * group_bytes(shape.type);
  const std::size_t scale = shape.type == WeightType::kInt8 ? sizeof(float) : 0;
  return shape.width * element_size(shape.type) + scale;
}

StackedShape stacked_shape(std::span<const HostMatrix> parts, WeightFormat format) {
  require(!parts.empty(), "at least one matrix");
  StackedShape shape{parts[0].type, 0, parts[0].width};
  for (const HostMatrix& part : parts) {
    require(part.type == shape.type && part.width == shape.width, "one type and one width");
    require(part.type != WeightType::kInt8, "a type that checkpoints have");
    require(part.rows > 0 && part.width > 0, "matrices that are not empty");
    require(part.bytes.size() == part.rows * row_bytes({part.type, 1, part.width}),
            "rows * width elements");
    shape.rows += part.rows;
  }
  require(shape.type != WeightType::kQ8 || shape.width % kGroupElements == 0, "whole groups");
  if (is_grouped(shape.type)) {
    const bool rounds = format == WeightFormat::kInt8 ||
                        (format == WeightFormat::kQ4 && shape.type != WeightType::kQ4);
    require(!rounds, "elements that are not rounded twice");
  } else if (format != WeightFormat::kStored) {
    shape.type = format == WeightFormat::kInt8 ? WeightType::kInt8 : WeightType::kQ4;
  }
  return shape;
}

void require_same_shape(ConstDeviceRows a, ConstDeviceRows b) {
  require(a.rows == b.rows && a.width == b.width, "matrices of the same shape");
}

void require_matmul(ConstDeviceRows x, const WeightMatrix& weight, ConstDeviceRows y) {
  require(x.rows == y.rows, "as many rows of y as of x");
  require(x.width == weight.width(), "x as wide as the weight matrix");
  require(y.width == weight.rows(), "y as wide as the weight matrix has rows");
}

void require_rope(ConstDeviceRows x, ConstDeviceRows cosines, ConstDeviceRows sines) {
  require_same_shape(cosines, sines);
  require(x.rows == cosines.rows, "as many rows of angles as of x");
  require(cosines.width > 0 && x.width % (2 * cosines.width) == 0, "x [T, heads * D]");
}

void require_argmax(ConstDeviceRows x, std::span<std::int32_t> ids) {
  require(x.width > 0 || x.rows == 0, "rows with an element");
  require(std::ssize(ids) == x.rows, "an id for each row");
}

void require_attention(ConstDeviceRows q, const HeadShape& heads, const RowPlaces& places,
                       ConstDeviceRows out) {
  require_same_shape(q, out);
  require(heads.n_kv_heads > 0 && heads.n_heads % heads.n_kv_heads == 0, "Hkv to divide H");
  require(q.width == heads.n_heads * heads.head_dim, "q [T, H * D]");
  require(places.page_size > 0, "page_size > 0");
}

}  // namespace specdec::cpu
