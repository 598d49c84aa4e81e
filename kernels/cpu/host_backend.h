#pragma once
#include <span>

#include "kernels/ops.h"

namespace specdec::cpu {

// What needs no second version on a CPU: its memory is the host's, and moving rows is memcpy.
class HostBackend : public Backend {
 public:
  void* allocate(std::size_t bytes) override;
  void deallocate(void* block) override;
  void upload(const void* host, void* device, std::size_t bytes) override;
  void download(const void* device, void* host, std::size_t bytes) override;
  void copy(const void* from, void* to, std::size_t bytes) override;

  void gather_rows(ConstDeviceRows x, const std::int32_t* rows, DeviceRows out) override;
  void store_kv(ConstDeviceRows k, ConstDeviceRows v, const RowPlaces& places,
                KvLayer cache) override;
  void fill(DeviceRows x, float value) override;
  void argmax_on_device(ConstDeviceRows x, std::int32_t* ids) override;
  // The C library's cosine and sine, once a pass.
  void rope_angles(const std::int32_t* positions, const float* frequencies, DeviceRows cosines,
                   DeviceRows sines) override;
};

// What the parts of a stacked matrix add up to. Aborts unless they agree and are complete.
struct StackedShape {
  WeightType type = WeightType::kF32;  // in which the format keeps them
  int rows = 0;
  int width = 0;
};
StackedShape stacked_shape(std::span<const HostMatrix> parts, WeightFormat format);

std::size_t element_size(WeightType type);

// What a row takes, its scale included.
std::size_t row_bytes(const StackedShape& shape);

// The shapes that ops.h asks for; each aborts with a message where they differ.
void require_same_shape(ConstDeviceRows a, ConstDeviceRows b);
void require_matmul(ConstDeviceRows x, const WeightMatrix& weight, ConstDeviceRows y);
void require_rope(ConstDeviceRows x, ConstDeviceRows cosines, ConstDeviceRows sines);
void require_argmax(ConstDeviceRows x, std::span<std::int32_t> ids);
void require_attention(ConstDeviceRows q, const HeadShape& heads, const RowPlaces& places,
                       ConstDeviceRows out);

}  // namespace specdec::cpu
