#include "kernels/cuda/device_code.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/weights.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr int kThreads = 128;

// A thread writes one element: column i of row t.
dim3 grid_of(DeviceRows out) {
  return dim3(blocks_for(out.width, kThreads), static_cast<unsigned>(out.rows));
}
__device__ int column() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }
__device__ int row() { return static_cast<int>(blockIdx.y); }

template <typename T>
__global__ void embed_kernel(Weights<T> table, const std::int32_t* ids, DeviceRows out) {
  const int i = column(), t = row();
  if (i < out.width) {
    row_of(out, t)[i] = table.scale(ids[t]) * to_float(table.row(ids[t])[i]);
  }
}

__global__ void gather_rows_kernel(ConstDeviceRows x, const std::int32_t* rows, DeviceRows out) {
  const int i = column(), t = row();
  if (i < out.width) row_of(out, t)[i] = row_of(x, rows[t])[i];
}

__global__ void add_kernel(DeviceRows x, ConstDeviceRows y) {
  const int i = column(), t = row();
  if (i < x.width) row_of(x, t)[i] += row_of(y, t)[i];
}

__global__ void silu_mul_kernel(ConstDeviceRows gate, ConstDeviceRows up, DeviceRows out) {
  const int i = column(), t = row();
  if (i >= out.width) return;
  const float z = row_of(gate, t)[i];
  row_of(out, t)[i] = z / (1.0f + expf(-z)) * row_of(up, t)[i];
}

__global__ void fill_kernel(DeviceRows x, float value) {
  const int i = column(), t = row();
  if (i < x.width) row_of(x, t)[i] = value;
}

__global__ void argmax_kernel(ConstDeviceRows x, std::int32_t* ids) {
  const int t = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (t >= x.rows) return;
  const float* values = row_of(x, t);
  int best = 0;
  bool has_nan = false;
  for (int i = 0; i < x.width; ++i) {
    has_nan |= values[i] != values[i];
    if (values[i] > values[best]) best = i;
  }
  ids[t] = has_nan ? -1 : best;
}

}  // namespace

void embed(const CudaMatrix& table, const std::int32_t* ids, DeviceRows out, cudaStream_t stream) {
  with_weights(table, [&]<typename T>(const Weights<T>& w) {
    launch(embed_kernel<T>, grid_of(out), kThreads, 0, stream, w, ids, out);
  });
}

void gather_rows(ConstDeviceRows x, const std::int32_t* rows, DeviceRows out, cudaStream_t stream) {
  launch(gather_rows_kernel, grid_of(out), kThreads, 0, stream, x, rows, out);
}

void add(DeviceRows x, ConstDeviceRows y, cudaStream_t stream) {
  launch(add_kernel, grid_of(x), kThreads, 0, stream, x, y);
}

void silu_mul(ConstDeviceRows gate, ConstDeviceRows up, DeviceRows out, cudaStream_t stream) {
  launch(silu_mul_kernel, grid_of(out), kThreads, 0, stream, gate, up, out);
}

void fill(DeviceRows x, float value, cudaStream_t stream) {
  launch(fill_kernel, grid_of(x), kThreads, 0, stream, x, value);
}

void argmax(ConstDeviceRows x, std::int32_t* ids, cudaStream_t stream) {
  launch(argmax_kernel, blocks_for(x.rows, kWarp), kWarp, 0, stream, x, ids);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
