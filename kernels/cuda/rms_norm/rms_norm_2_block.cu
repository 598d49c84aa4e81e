// One block per row. Thread i reads elements i, i + threads, ...: in one step, a warp reads 128
// contiguous bytes, where the naive kernel's 32 lanes read from 32 rows. The partial sums are added
// by shuffles within a warp, and through shared memory between warps.
#include <algorithm>

#include "kernels/cuda/device_code.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/rms_norm/rms_norm.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

__global__ void rms_norm_block_kernel(ConstDeviceRows x, const float* weight, float eps,
                                      DeviceRows out) {
  const int t = blockIdx.x, threads = blockDim.x;
  const float* row = row_of(x, t);
  // [snippet rms-norm-block]
  float sum = 0.0f;
  for (int i = threadIdx.x; i < x.width; i += threads) {
    sum = fmaf(row[i], row[i], sum);
  }
  sum = block_sum(sum);
  // [end snippet rms-norm-block]
  const float inverse = 1.0f / sqrtf(sum / x.width + eps);
  for (int i = threadIdx.x; i < x.width; i += threads) {
    row_of(out, t)[i] = row[i] * inverse * weight[i];
  }
}

}  // namespace

void rms_norm_block(ConstDeviceRows x, const float* weight, float eps, DeviceRows out,
                    cudaStream_t stream) {
  const unsigned warps = std::clamp(blocks_for(x.width, 8 * kWarp), 1u, 8u);
  launch(rms_norm_block_kernel, x.rows, warps * kWarp, 0, stream, x, weight, eps, out);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
