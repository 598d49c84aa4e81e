#include "kernels/cuda/device_code.h"
#include "kernels/cuda/rope.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr int kThreads = 128;

__global__ void rope_angles_kernel(const std::int32_t* positions, const float* frequencies,
                                   DeviceRows cosines, DeviceRows sines) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int t = static_cast<int>(blockIdx.y);
  if (i >= cosines.width) return;
  const float angle = static_cast<float>(positions[t]) * frequencies[i];
  row_of(cosines, t)[i] = cosf(angle);
  row_of(sines, t)[i] = sinf(angle);
}

// A thread turns one pair.
__global__ void rope_kernel(DeviceRows x, ConstDeviceRows cosines, ConstDeviceRows sines) {
  const int half = cosines.width;
  const int pair = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int t = static_cast<int>(blockIdx.y);
  if (pair >= x.width / 2) return;
  const int i = pair % half;
  float* first = row_of(x, t) + pair / half * 2 * half + i;
  const float a = first[0], b = first[half];
  const float cosine = row_of(cosines, t)[i], sine = row_of(sines, t)[i];
  first[0] = fmaf(a, cosine, -(b * sine));
  first[half] = fmaf(b, cosine, a * sine);
}

__global__ void store_kv_kernel(ConstDeviceRows k, ConstDeviceRows v, const std::int32_t* slots,
                                KvLayer cache) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int t = static_cast<int>(blockIdx.y);
  if (i >= k.width) return;
  const std::ptrdiff_t to = static_cast<std::ptrdiff_t>(slots[t]) * k.width + i;
  cache.keys[to] = row_of(k, t)[i];
  cache.values[to] = row_of(v, t)[i];
}

dim3 grid_of(int width, int rows) {
  return dim3(blocks_for(width, kThreads), static_cast<unsigned>(rows));
}

}  // namespace

void rope_angles(const std::int32_t* positions, const float* frequencies, DeviceRows cosines,
                 DeviceRows sines, cudaStream_t stream) {
  launch(rope_angles_kernel, grid_of(cosines.width, cosines.rows), kThreads, 0, stream, positions,
         frequencies, cosines, sines);
}

void rope(DeviceRows x, ConstDeviceRows cosines, ConstDeviceRows sines, cudaStream_t stream) {
  launch(rope_kernel, grid_of(x.width / 2, x.rows), kThreads, 0, stream, x, cosines, sines);
}

void store_kv(ConstDeviceRows k, ConstDeviceRows v, const RowPlaces& places, KvLayer cache,
              cudaStream_t stream) {
  launch(store_kv_kernel, grid_of(k.width, k.rows), kThreads, 0, stream, k, v, places.slots, cache);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
