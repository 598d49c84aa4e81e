// One thread per element of y: neighbouring threads read weights a row apart, and every row of x
// reads all weights again.
#include "kernels/cuda/device_code.h"
#include "kernels/cuda/matmul/matmul.h"
#include "kernels/cuda/weights.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

template <typename T>
__global__ void matmul_naive_kernel(ConstDeviceRows x, Weights<T> weight, DeviceRows y) {
  const int n = blockIdx.x * blockDim.x + threadIdx.x, t = blockIdx.y;
  if (n >= weight.rows) return;
  float total = 0.0f;
  for (int k = 0; k < x.width; ++k) {
    total = fmaf(row_of(x, t)[k], weight.number(n, k), total);
  }
  row_of(y, t)[n] = weight.scale(n) * total;
}

}  // namespace

void matmul_naive(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream) {
  with_weights(weight, [&]<typename T>(const Weights<T>& w) {
    launch(matmul_naive_kernel<T>, dim3(blocks_for(w.rows, 64), x.rows), 64, 0, stream, x, w, y);
  });
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
