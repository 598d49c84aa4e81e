#pragma once
#include <span>
#include <vector>

#include "kernels/ops.h"

namespace specdec::cpu {

// The operations that all CPU backends share: their memory is the host's, and moving rows is
// memcpy.
class HostBackend : public Backend {
 public:
  void* allocate(std::size_t bytes) override;
  void deallocate(void* block) override;
  void upload(const void* host, void* device, std::size_t bytes) override;
  void download(const void* device, void* host, std::size_t bytes) override;
  Parcel parcel(std::size_t bytes) override;
  void send(std::size_t /*bytes*/) override {}
  void copy(const void* from, void* to, std::size_t bytes) override;

  void gather_rows(ConstDeviceRows x, const std::int32_t* rows, DeviceRows out) override;
  void store_kv(ConstDeviceRows k, ConstDeviceRows v, const RowPlaces& places,
                KvLayer cache) override;
  void fill(DeviceRows x, float value) override;
  void argmax_on_device(ConstDeviceRows x, std::int32_t* ids) override;
  // The C library's cosine and sine, once per pass.
  void rope_angles(const std::int32_t* positions, const float* frequencies, DeviceRows cosines,
                   DeviceRows sines) override;

 private:
  std::vector<std::byte> parcel_;  // never shrinks
};

// The shape of a stacked matrix. Aborts unless its parts agree and are complete.
struct StackedShape {
  WeightType type = WeightType::kF32;  // after conversion to the format
  int rows = 0;
  int width = 0;
};
StackedShape stacked_shape(std::span<const HostMatrix> parts, WeightFormat format);

std::size_t element_size(WeightType type);  // REQUIRES: no groups

// The bytes of a row, including its scale or its groups' scales.
std::size_t row_bytes(const StackedShape& shape);

// Abort with a message unless shapes are as ops.h requires.
void require_same_shape(ConstDeviceRows a, ConstDeviceRows b);
void require_matmul(ConstDeviceRows x, const WeightMatrix& weight, ConstDeviceRows y);
void require_rope(ConstDeviceRows x, ConstDeviceRows cosines, ConstDeviceRows sines);
void require_argmax(ConstDeviceRows x, std::span<std::int32_t> ids);
void require_attention(ConstDeviceRows q, const HeadShape& heads, const RowPlaces& places,
                       ConstDeviceRows out);

}  // namespace specdec::cpu
