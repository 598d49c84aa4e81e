// How the blocks of a cluster work together, as CUDA's programming guide has it: on a GPU of
// compute capability 9.0 the same test runs with CUDA itself.
#include "kernels/cuda/cluster.h"
#include "tests/emulation/run.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr unsigned kThreads = 64;
constexpr std::size_t kSharedBytes = kThreads * sizeof(int);

__global__ void number_blocks(int* out) {
  const auto cluster = this_cluster();
  const unsigned block = blockIdx.x + gridDim.x * blockIdx.y;
  if (threadIdx.x == 0)
    out[block] = static_cast<int>(10 * cluster.block_rank() + cluster.num_blocks());
}

class Clusters : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (!IsSkipped() && !has_code_for_9_0(reinterpret_cast<const void*>(number_blocks))) {
      GTEST_SKIP() << "NOT CHECKED: a GPU of compute capability 9.0, and code for it";
    }
  }
};

TEST_F(Clusters, NumbersTheirBlocksAlongX) {
  for (const int size : {1, 2, 4, 8}) {
    const std::vector<int> got =
        run(number_blocks, dim3(8, 3), 32, 24, 0, 0, in_clusters(size, nullptr));
    for (int i = 0; i < 24; ++i) {
      EXPECT_EQ(got[static_cast<std::size_t>(i)], 10 * (i % size) + size) << i << " of " << size;
    }
  }
}

// Values walk from block to block, a step at a time, written by one block and read by another.
__global__ void walk_around_the_cluster(int* out) {
  const auto cluster = this_cluster();
  const int t = threadIdx.x, rank = cluster.block_rank(), blocks = cluster.num_blocks();
  int* const values = dynamic_shared<int>();
  values[t] = 1000 * static_cast<int>(blockIdx.x) + t;
  __syncthreads();
  for (int step = 0; step < 5; ++step) {
    cluster.sync();
    const int before = cluster.map_shared_rank(values, (rank + blocks - 1) % blocks)[t ^ 1];
    cluster.sync();
    values[t ^ 1] = before;
  }
  __syncthreads();
  const int last = values[t] + 1;
  cluster.sync();
  cluster.map_shared_rank(values, (rank + 1) % blocks)[t] = last;
  cluster.sync();
  out[blockIdx.x * blockDim.x + t] = values[t];
}

TEST_F(Clusters, ReadAndWriteEachOthersMemory) {
  for (const int size : {1, 2, 3, 8}) {
    const std::vector<int> got =
        run(walk_around_the_cluster, 2 * size, kThreads, 2 * size * kThreads, 0, kSharedBytes,
            in_clusters(size, nullptr));
    for (int block = 0; block < 2 * size; ++block) {
      const int from = block / size * size + (block + 6 * size - 6) % size;  // six blocks before
      for (int t = 0; t < static_cast<int>(kThreads); ++t) {
        EXPECT_EQ(got[static_cast<std::size_t>(block) * kThreads + t], 1000 * from + t + 1)
            << "thread " << t << " of block " << block << ", clusters of " << size;
      }
    }
  }
}

// A barrier of the cluster doesn't wait for threads that have ended, nor a block's for other
// blocks.
__global__ void some_end_early(int* out) {
  const auto cluster = this_cluster();
  int* const values = dynamic_shared<int>();
  if (threadIdx.x >= 32) return;
  values[threadIdx.x] = 7;
  if (cluster.block_rank() == 0) __syncthreads();
  cluster.sync();
  out[blockIdx.x * 32 + threadIdx.x] = cluster.map_shared_rank(values, 0)[threadIdx.x];
  cluster.sync();
}

TEST_F(Clusters, WaitForNoThreadThatHasEnded) {
  EXPECT_EQ(run(some_end_early, 2, kThreads, 64, 0, kSharedBytes, in_clusters(2, nullptr)),
            std::vector<int>(64, 7));
}

TEST_F(Clusters, RefusesWhatAGpuWouldRefuse) {
  const auto launched = [](unsigned blocks, unsigned size) {
    return run(number_blocks, blocks, 32, blocks, 0, 0, in_clusters(size, nullptr));
  };
  EXPECT_NO_THROW(launched(8, 8));
  EXPECT_THROW(launched(6, 4), std::runtime_error);
  EXPECT_THROW(launched(18, 9), std::runtime_error);
  EXPECT_NO_THROW(launched(8, 2));  // and goes on
}

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
