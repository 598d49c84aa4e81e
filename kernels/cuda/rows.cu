#include "kernels/cuda/device_code.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/silu.h"
#include "kernels/cuda/vector4.h"
#include "kernels/cuda/weights.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr int kThreads = 128;

// Each thread writes four neighbouring elements: columns i .. i + 3 of row t.
dim3 grid_of(DeviceRows out) { return dim3(out.rows, blocks_for(out.width, 4 * kThreads)); }
__device__ int row() { return blockIdx.x; }
__device__ int first_column() { return 4 * (blockIdx.y * blockDim.x + threadIdx.x); }

template <typename T>
__global__ void embed_kernel(Weights<T> table, const std::int32_t* ids, DeviceRows out) {
  await_kernels_before();
  const int i = first_column(), t = row();
  if (i >= out.width) return;
  Vector4 v = {};
  if (const std::int32_t id = ids[t]; id >= 0) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {  // rows are padded: four elements exist
      v.at[j] = table.scale(id) * table.number(id, i + j);
    }
  }
  store4(row_of(out, t) + i, out.width - i, v);
}

__global__ void gather_rows_kernel(ConstDeviceRows x, const std::int32_t* rows, DeviceRows out) {
  await_kernels_before();
  const int i = first_column(), t = row();
  store4(row_of(out, t) + i, out.width - i, load4(row_of(x, rows[t]) + i, out.width - i));
}

__global__ void add_kernel(DeviceRows x, ConstDeviceRows y) {
  await_kernels_before();
  const int i = first_column(), t = row();
  Vector4 v = load4(row_of(x, t) + i, x.width - i);
  const Vector4 added = load4(row_of(y, t) + i, x.width - i);
#pragma unroll
  for (int j = 0; j < 4; ++j) v.at[j] += added.at[j];
  store4(row_of(x, t) + i, x.width - i, v);
}

__global__ void silu_mul_kernel(ConstDeviceRows gate, ConstDeviceRows up, DeviceRows out) {
  await_kernels_before();
  const int i = first_column(), t = row();
  Vector4 v = load4(row_of(gate, t) + i, out.width - i);
  const Vector4 factor = load4(row_of(up, t) + i, out.width - i);
#pragma unroll
  for (int j = 0; j < 4; ++j) v.at[j] = silu_mul(v.at[j], factor.at[j]);
  store4(row_of(out, t) + i, out.width - i, v);
}

__global__ void fill_kernel(DeviceRows x, float value) {
  await_kernels_before();
  const int i = first_column();
  store4(row_of(x, row()) + i, x.width - i, {{value, value, value, value}});
}

}  // namespace

void embed(const CudaMatrix& table, const std::int32_t* ids, DeviceRows out, cudaStream_t stream) {
  with_weights(table, [&]<typename T>(const Weights<T>& w) {
    launch(embed_kernel<T>, grid_of(out), kThreads, 0, early(stream), w, ids, out);
  });
}

void gather_rows(ConstDeviceRows x, const std::int32_t* rows, DeviceRows out, cudaStream_t stream) {
  launch(gather_rows_kernel, grid_of(out), kThreads, 0, early(stream), x, rows, out);
}

void add(DeviceRows x, ConstDeviceRows y, cudaStream_t stream) {
  launch(add_kernel, grid_of(x), kThreads, 0, early(stream), x, y);
}

void silu_mul(ConstDeviceRows gate, ConstDeviceRows up, DeviceRows out, cudaStream_t stream) {
  launch(silu_mul_kernel, grid_of(out), kThreads, 0, early(stream), gate, up, out);
}

void fill(DeviceRows x, float value, cudaStream_t stream) {
  launch(fill_kernel, grid_of(x), kThreads, 0, early(stream), x, value);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
