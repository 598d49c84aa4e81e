// One warp per element of y, and a lane takes 16 bytes of weights per load: an instruction loads
// 512 bytes per warp, where single bf16 weights made 64. So a warp has enough bytes in flight to
// use the memory's bandwidth.
#include "kernels/cuda/device_code.h"
#include "kernels/cuda/matmul/matmul.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/vector4.h"
#include "kernels/cuda/weights.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr int kWarps = 4;  // per block, one output each

template <typename T>
__global__ void matmul_vector_kernel(ConstDeviceRows x, Weights<T> weight, DeviceRows y) {
  const int n = blockIdx.x * kWarps + threadIdx.x / kWarp;
  const int t = blockIdx.y, lane = threadIdx.x % kWarp;
  if (n >= weight.rows) return;
  const float* row = row_of(x, t);
  float total = 0.0f;
  for (int g = lane; g < weight.loads(); g += kWarp) {
    const Group<T> w = weight.group(n, g);
#pragma unroll
    for (int j = 0; j < kGroup<T>; j += 4) {
      const int k = g * kGroup<T> + j;
      const Vector4 inputs = load4(row + k, x.width - k);  // the weights' padding meets zeros
#pragma unroll
      for (int i = 0; i < 4; ++i) total = fmaf(inputs.at[i], w.number(j + i), total);
    }
  }
  total = warp_sum(total);
  if (lane == 0) row_of(y, t)[n] = weight.scale(n) * total;
}

}  // namespace

void matmul_vector(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream) {
  with_weights(weight, [&]<typename T>(const Weights<T>& w) {
    launch(matmul_vector_kernel<T>, dim3(blocks_for(w.rows, kWarps), x.rows), kWarps * kWarp, 0,
           stream, x, w, y);
  });
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
