// One thread per row, which reads the whole vocabulary.
#include "kernels/cuda/argmax/argmax.h"
#include "kernels/cuda/device_code.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

__global__ void argmax_naive_kernel(ConstDeviceRows x, std::int32_t* ids) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
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

void argmax_naive(ConstDeviceRows x, std::int32_t* ids, cudaStream_t stream) {
  launch(argmax_naive_kernel, blocks_for(x.rows, kWarp), kWarp, 0, stream, x, ids);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
