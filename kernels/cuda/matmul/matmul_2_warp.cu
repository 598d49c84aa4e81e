// One warp per element of y: lane l multiplies weights l, l + 32, ..., so that the warp's reads in
// one step are coalesced. Then five shuffles add the lanes' sums.
#include "kernels/cuda/device_code.h"
#include "kernels/cuda/matmul/matmul.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/weights.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr int kWarps = 4;  // per block, one output each

template <typename T>
__global__ void matmul_warp_kernel(ConstDeviceRows x, Weights<T> weight, DeviceRows y) {
  const int n = blockIdx.x * kWarps + threadIdx.x / kWarp;
  const int t = blockIdx.y, lane = threadIdx.x % kWarp;
  if (n >= weight.rows) return;
  const float* row = row_of(x, t);
  // [snippet matmul-warp]
  float total = 0.0f;
  for (int k = lane; k < x.width; k += kWarp) {
    total = fmaf(row[k], weight.number(n, k), total);
  }
  total = warp_sum(total);
  if (lane == 0) row_of(y, t)[n] = weight.scale(n) * total;
  // [end snippet matmul-warp]
}

}  // namespace

void matmul_warp(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream) {
  with_weights(weight, [&]<typename T>(const Weights<T>& w) {
    launch(matmul_warp_kernel<T>, dim3(blocks_for(w.rows, kWarps), x.rows), kWarps * kWarp, 0,
           stream, x, w, y);
  });
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
