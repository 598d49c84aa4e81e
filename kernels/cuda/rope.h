#pragma once
#include <cstdint>

#include "kernels/cuda/runtime.h"
#include "kernels/ops.h"

// The operations of the same names in Backend (kernels/ops.h). The caller has checked the shapes.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

void rope_angles(const std::int32_t* positions, const float* frequencies, DeviceRows cosines,
                 DeviceRows sines, cudaStream_t stream);
void rope(DeviceRows x, ConstDeviceRows cosines, ConstDeviceRows sines, cudaStream_t stream);
void store_kv(ConstDeviceRows k, ConstDeviceRows v, const RowPlaces& places, KvLayer cache,
              cudaStream_t stream);

// Where q, k and v go, which are columns of one matrix in this order: q is rotated, k is rotated
// and stored, v is stored.
struct RopeStore {
  ConstDeviceRows cosines, sines;       // [T, D / 2]
  const std::int32_t* slots = nullptr;  // [T]
  KvLayer cache;
  int q_width = 0, kv_width = 0;
};

// One kernel for all three: it stores k from the registers that rotated it.
void rope_store_kv(DeviceRows q, DeviceRows k, ConstDeviceRows v, ConstDeviceRows cosines,
                   ConstDeviceRows sines, const RowPlaces& places, KvLayer cache,
                   cudaStream_t stream);

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
