// One thread per row, so neighbouring threads read addresses that are a row apart.
#include "kernels/cuda/device_code.h"
#include "kernels/cuda/rms_norm/rms_norm.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

// [snippet rms-norm-naive]
__global__ void rms_norm_naive_kernel(ConstDeviceRows x, const float* weight, float eps,
                                      DeviceRows out) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= x.rows) return;
  const float* row = row_of(x, t);
  float sum = 0.0f;
  for (int i = 0; i < x.width; ++i) sum = fmaf(row[i], row[i], sum);
  const float inverse = 1.0f / sqrtf(sum / x.width + eps);
  for (int i = 0; i < x.width; ++i) row_of(out, t)[i] = row[i] * inverse * weight[i];
}
// [end snippet rms-norm-naive]

}  // namespace

void rms_norm_naive(ConstDeviceRows x, const float* weight, float eps, DeviceRows out,
                    cudaStream_t stream) {
  launch(rms_norm_naive_kernel, blocks_for(x.rows, kWarp), kWarp, 0, stream, x, weight, eps, out);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
