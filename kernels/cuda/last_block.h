#pragma once
#include "kernels/cuda/device_code.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// [snippet last-block]
// Whether the other blocks of a group of `blocks` have finished their writes before this call. No
// block waits: the last one to arrive continues, and the count is zero again. It reads what the
// others have written by __ldcg, because its multiprocessor's own cache may hold stale data.
template <typename Counter>
__device__ bool is_last_block(Counter& blocks_done, unsigned blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicInc(&blocks_done, blocks - 1) == blocks - 1;
    __threadfence();
  }
  __syncthreads();
  return last;
}
// [end snippet last-block]

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
