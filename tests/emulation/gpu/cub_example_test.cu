// The example of CUB in the chapter: nvcc compiles it, and on a GPU its sum is checked.
#include <cub/block/block_reduce.cuh>

#include "tests/emulation/run.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

class CubExample : public DeviceTest {};

// [snippet cub-example]
// The sum of 0, 1, ..., kNumbers - 1, by one block.
template <int kThreads, int kNumbers>
__global__ void sum_by_cub(int* sum) {
  using BlockReduce = cub::BlockReduce<int, kThreads>;
  __shared__ typename BlockReduce::TempStorage storage;
  int mine = 0;
  for (int i = static_cast<int>(threadIdx.x); i < kNumbers; i += kThreads) mine += i;
  const int total = BlockReduce(storage).Sum(mine);
  if (threadIdx.x == 0) *sum = total;  // only this thread has it
}
// [end snippet cub-example]

TEST_F(CubExample, AddsOverABlock) {
  EXPECT_EQ(run(sum_by_cub<128, 1000>, dim3(1), dim3(128), 1)[0], 1000 * 999 / 2);
}

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
