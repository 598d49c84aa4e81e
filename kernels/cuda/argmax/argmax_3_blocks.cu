// Several blocks per row. Keys are integers, so their maximum does not depend on the order in which
// blocks finish: an atomic maximum gives the same id in every run, unlike an atomic sum of floats.
// The last block to finish knows that all keys are in, and writes the id. No block waits for
// another.
#include "kernels/cuda/argmax/argmax.h"
#include "kernels/cuda/argmax/argmax_keys.h"
#include "kernels/cuda/device_code.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr int kThreads = 256;
constexpr int kPerBlock = 16 * kThreads;  // four loads of four for each thread

// [snippet argmax-blocks]
__global__ void __launch_bounds__(kThreads)
    argmax_blocks_kernel(ConstDeviceRows x, ArgmaxScratch scratch, std::int32_t* ids) {
  await_kernels_before();
  const int t = blockIdx.y;
  const int first = blockIdx.x * kPerBlock;
  const int last = first + kPerBlock < x.width ? first + kPerBlock : x.width;
  const unsigned long long best = block_max_key(row_of(x, t), first, last);
  if (threadIdx.x != 0) return;
  atomicMax(&scratch.keys[t], best);
  __threadfence();  // the key is in before the block is counted
  if (atomicInc(&scratch.blocks_done[t], gridDim.x - 1) < gridDim.x - 1) return;
  __threadfence();  // the other blocks' keys are seen, not older ones
  // This is the last block. The count is zero again, and the next line resets the key.
  ids[t] = index_of(atomicExch(&scratch.keys[t], 0ull));
}
// [end snippet argmax-blocks]

}  // namespace

void argmax_blocks(ConstDeviceRows x, std::int32_t* ids, ArgmaxScratch scratch,
                   cudaStream_t stream) {
  const dim3 grid(blocks_for(x.width, kPerBlock), x.rows);
  launch(argmax_blocks_kernel, grid, kThreads, 0, early(stream), x, scratch, ids);
}

void argmax(ConstDeviceRows x, std::int32_t* ids, ArgmaxScratch scratch, cudaStream_t stream) {
  argmax_blocks(x, ids, scratch, stream);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
