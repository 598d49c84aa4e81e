// One block per row, four elements per load: a quarter of the load instructions, and four times the
// bytes in flight. With the residual addition fused in, x comes from memory once instead of twice:
// in the second loop, a thread reads back what it wrote in the first, which is still in the caches.
#include <algorithm>

#include "kernels/cuda/device_code.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/rms_norm/rms_norm.h"
#include "kernels/cuda/vector4.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

// sum += the squares of v, from the first element on.
__device__ float add_squares(const Vector4& v, float sum) {
#pragma unroll
  for (int i = 0; i < 4; ++i) sum = fmaf(v.at[i], v.at[i], sum);
  return sum;
}

// Prefetches the weights that this thread uses.
__device__ void prefetch_row(const float* weight, int width) {
  for (int i = 4 * threadIdx.x; i < width; i += 4 * blockDim.x) prefetch(weight + i);
}

// out = row * inverse * weight, for the elements of one thread.
__device__ void scale_row(const float* row, int width, float inverse, const float* weight,
                          float* out) {
  for (int i = 4 * threadIdx.x; i < width; i += 4 * blockDim.x) {
    Vector4 v = load4(row + i, width - i);
    const Vector4 w = load4(weight + i, width - i);
#pragma unroll
    for (int j = 0; j < 4; ++j) v.at[j] = v.at[j] * inverse * w.at[j];
    store4(out + i, width - i, v);
  }
}

__device__ float inverse_rms(float sum_of_thread, int width, float eps) {
  return 1.0f / sqrtf(block_sum(sum_of_thread) / width + eps);
}

__global__ void rms_norm_vector_kernel(ConstDeviceRows x, const float* weight, float eps,
                                       DeviceRows out) {
  prefetch_row(weight, out.width);
  await_kernels_before();
  const int t = blockIdx.x, step = 4 * blockDim.x;
  const float* row = row_of(x, t);
  float sum = 0.0f;
  for (int i = 4 * threadIdx.x; i < x.width; i += step) {
    sum = add_squares(load4(row + i, x.width - i), sum);
  }
  scale_row(row, x.width, inverse_rms(sum, x.width, eps), weight, row_of(out, t));
}

__global__ void add_rms_norm_kernel(DeviceRows x, ConstDeviceRows y, const float* weight, float eps,
                                    DeviceRows out) {
  prefetch_row(weight, out.width);
  await_kernels_before();
  const int t = blockIdx.x, step = 4 * blockDim.x;
  float* row = row_of(x, t);
  float sum = 0.0f;
  for (int i = 4 * threadIdx.x; i < x.width; i += step) {
    Vector4 v = load4(row + i, x.width - i);
    const Vector4 added = load4(row_of(y, t) + i, x.width - i);
#pragma unroll
    for (int j = 0; j < 4; ++j) v.at[j] += added.at[j];
    store4(row + i, x.width - i, v);
    sum = add_squares(v, sum);
  }
  scale_row(row, x.width, inverse_rms(sum, x.width, eps), weight, row_of(out, t));
}

// Depends only on the width, because it determines the order of summation.
unsigned threads_for(int width) {
  return std::clamp(blocks_for(width, 8 * kWarp), 1u, 16u) * kWarp;
}

}  // namespace

void rms_norm_vector(ConstDeviceRows x, const float* weight, float eps, DeviceRows out,
                     cudaStream_t stream) {
  launch(rms_norm_vector_kernel, x.rows, threads_for(x.width), 0, early(stream), x, weight, eps,
         out);
}

void add_rms_norm_vector(DeviceRows x, ConstDeviceRows y, const float* weight, float eps,
                         DeviceRows out, cudaStream_t stream) {
  launch(add_rms_norm_kernel, x.rows, threads_for(x.width), 0, early(stream), x, y, weight, eps,
         out);
}

void rms_norm(ConstDeviceRows x, const float* weight, float eps, DeviceRows out,
              cudaStream_t stream) {
  rms_norm_vector(x, weight, eps, out, stream);
}

void add_rms_norm(DeviceRows x, ConstDeviceRows y, const float* weight, float eps, DeviceRows out,
                  cudaStream_t stream) {
  add_rms_norm_vector(x, y, weight, eps, out, stream);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
