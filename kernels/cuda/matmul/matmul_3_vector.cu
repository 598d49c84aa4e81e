// One warp an element of y, and a lane takes 16 bytes of weights a load: 512 bytes a warp in one
// instruction where bf16 weights one by one were 64. That is how a warp keeps enough bytes on their
// way to use the memory's bandwidth.
#include "kernels/cuda/device_code.h"
#include "kernels/cuda/matmul/matmul.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/vector4.h"
#include "kernels/cuda/weights.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr int kWarps = 4;  // of a block; each has an output of its own

template <typename T>
__global__ void matmul_vector_kernel(ConstDeviceRows x, Weights<T> weight, DeviceRows y) {
  const int n = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / kWarp;
  const int t = static_cast<int>(blockIdx.y), lane = static_cast<int>(threadIdx.x) % kWarp;
  if (n >= weight.rows) return;
  const float* row = row_of(x, t);
  float total = 0.0f;
  for (int g = lane; g < weight.groups(); g += kWarp) {
    const Group<T> w = weight.group(n, g);
#pragma unroll
    for (int j = 0; j < kGroup<T>; j += 4) {
      const int k = g * kGroup<T> + j;
      const Vector4 inputs = load4(row + k, x.width - k);  // the weights' padding meets zeros
#pragma unroll
      for (int i = 0; i < 4; ++i) total = fmaf(inputs.at[i], to_float(w.at[j + i]), total);
    }
  }
  total = warp_sum(total);
  if (lane == 0) row_of(y, t)[n] = weight.scale(n) * total;
}

}  // namespace

void matmul_vector(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream) {
  with_weights(weight, [&]<typename T>(const Weights<T>& w) {
    launch(matmul_vector_kernel<T>, dim3(blocks_for(w.rows, kWarps), static_cast<unsigned>(x.rows)),
           kWarps * kWarp, 0, stream, x, w, y);
  });
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
