// One block per row, in which all threads find the largest key together (argmax_keys.h).
//
// One block of 1,024 threads reads the 513 KB of 128,256 logits at the speed of one multiprocessor;
// the matrix that makes the logits has 525 MB.
#include <algorithm>

#include "kernels/cuda/argmax/argmax.h"
#include "kernels/cuda/argmax/argmax_keys.h"
#include "kernels/cuda/device_code.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

__global__ void __launch_bounds__(1024) argmax_block_kernel(ConstDeviceRows x, std::int32_t* ids) {
  const int t = blockIdx.x;
  const unsigned long long best = block_max_key(row_of(x, t), 0, x.width);
  if (threadIdx.x == 0) ids[t] = index_of(best);
}

}  // namespace

void argmax_block(ConstDeviceRows x, std::int32_t* ids, cudaStream_t stream) {
  const unsigned warps = std::clamp(blocks_for(x.width, 8 * kWarp), 1u, 32u);
  launch(argmax_block_kernel, x.rows, warps * kWarp, 0, stream, x, ids);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
