// Seeded bugs of clusters: blocks that do not wait for each other, or leave too early.
#include "kernels/cuda/cluster.h"
#include "tests/emulation/seeded_bugs.h"

// A race ends the program, so that a test can see it.
extern "C" const char* __tsan_default_options() { return "halt_on_error=1"; }

namespace specdec::cuda::inline emulated {
namespace {

constexpr unsigned kBlocks = 4, kThreads = 32;
constexpr std::size_t kSharedBytes = kThreads * sizeof(int);
const std::vector<int> kRight(kBlocks* kThreads, 7);

std::vector<int> run_cluster(void (*kernel)(int*)) {
  return run(kernel, kBlocks, kThreads, kBlocks * kThreads, 0, kSharedBytes,
             in_clusters(kBlocks, nullptr));
}
void expect_right(void (*kernel)(int*)) {
  in_every_order([&](const char* order) { EXPECT_EQ(run_cluster(kernel), kRight) << order; });
}
// ThreadSanitizer reports a race in every order.
void expect_races(void (*kernel)(int*), const std::string& report) {
  in_every_order([&](const char* order) {
    EXPECT_DEATH(run_cluster(kernel), "data race(.|\n)*" + report) << order;
  });
}
void expect_report(void (*kernel)(int*), const char* order, const std::string& report) {
  setenv("SPECDEC_THREAD_ORDER", order, 1);
  EXPECT_DEATH(run_cluster(kernel), "CUDA emulation: " + report);
}

// Each block hands on what the block before has handed over.
template <bool kBug>
__global__ void hand_over(int* out) {
  const auto cluster = this_cluster();
  const int rank = cluster.block_rank(), t = threadIdx.x;
  int* const handed = dynamic_shared<int>() + t;
  if (rank == 0) *handed = 7;
  cluster.sync();
  for (int turn = 0; turn < static_cast<int>(kBlocks); ++turn) {
    if (turn == rank && turn + 1 < static_cast<int>(kBlocks)) {
      *cluster.map_shared_rank(handed, turn + 1) = *handed;
    }
    if (!kBug) cluster.sync();
  }
  cluster.sync();
  out[rank * static_cast<int>(kThreads) + t] = *handed;
}

TEST_F(SeededBugs, ABlockDoesNotWaitForTheOneBefore) {
  if (kThreadSanitizer) {
    expect_races(hand_over<true>, "hand_over");
  } else {
    int wrong_orders = 0;
    in_every_order([&](const char*) { wrong_orders += run_cluster(hand_over<true>) != kRight; });
    EXPECT_GT(wrong_orders, 0);
  }
  expect_right(hand_over<false>);
}

// Blocks write into the next one's memory, which must still be there.
enum class Missing { kNothing, kFirstSync, kLastSync };
template <Missing kMissing>
__global__ void write_to_the_next(int* out) {
  const auto cluster = this_cluster();
  const unsigned rank = cluster.block_rank(), t = threadIdx.x;
  int* const mine = dynamic_shared<int>() + t;
  if (kMissing != Missing::kFirstSync) cluster.sync();
  *cluster.map_shared_rank(mine, (rank + 1) % kBlocks) = 7;
  if (kMissing != Missing::kLastSync) cluster.sync();
  out[rank * kThreads + t] = kMissing == Missing::kLastSync ? 7 : *mine;
}

TEST_F(SeededBugs, ABlockLeavesWhileOthersWriteIntoItsMemory) {
  if (kThreadSanitizer) {
    expect_races(write_to_the_next<Missing::kLastSync>, "write_to_the_next");
  } else {
    in_every_order([](const char* order) {
      expect_report(write_to_the_next<Missing::kLastSync>, order,
                    "another block has written into this one's memory after it ended");
    });
  }
  expect_right(write_to_the_next<Missing::kNothing>);
}

TEST_F(SeededBugs, ABlockUsesMemoryOfOneThatHasNotBegun) {
  if (kThreadSanitizer) {
    expect_races(write_to_the_next<Missing::kFirstSync>, "write_to_the_next");
  } else {
    in_every_order([](const char* order) {
      expect_report(write_to_the_next<Missing::kFirstSync>, order,
                    "another block has written into this one's memory before it began");
    });
  }
}

// The same for reads, which find NaN.
template <bool kBug>
__global__ void read_the_next(int* out) {
  const auto cluster = this_cluster();
  const unsigned rank = cluster.block_rank(), t = threadIdx.x;
  int* const mine = dynamic_shared<int>() + t;
  *mine = 7;
  cluster.sync();
  if (rank == 0) __syncthreads();
  out[rank * kThreads + t] = *cluster.map_shared_rank(mine, (rank + 1) % kBlocks);
  if (!kBug) cluster.sync();
}

TEST_F(SeededBugs, ABlockLeavesWhileOthersReadItsMemory) {
  if (kThreadSanitizer) {
    expect_races(read_the_next<true>, "read_the_next");
  } else {
    in_every_order(
        [](const char* order) { EXPECT_NE(run_cluster(read_the_next<true>), kRight) << order; });
  }
  expect_right(read_the_next<false>);
}

__global__ void sync_in_some_blocks(int* out) {
  if (blockIdx.x > 0) this_cluster().sync();
  if (blockIdx.x == 1) this_cluster().sync();
  if (blockIdx.x == 0 && threadIdx.x == 0) __syncthreads();
  __syncthreads();
  out[0] = 7;
}
__global__ void sync_at_different_lines(int*) {
  if (blockIdx.x == 2) {
    this_cluster().sync();
  } else {
    this_cluster().sync();
  }
}
TEST_F(SeededBugs, BarriersOfAClusterThatDoNotFit) {
  expect_report(sync_in_some_blocks, "forward", "threads wait at different __syncthreads");
  expect_report(sync_at_different_lines, "forward", "threads wait at different barriers of the cl");
}

__global__ void write_static_shared(int* out) {
  __shared__ int values[kThreads];
  values[threadIdx.x] = 7;
  __syncthreads();
  out[blockIdx.x * kThreads + threadIdx.x] = values[threadIdx.x ^ 1];
}
TEST_F(SeededBugs, StaticSharedMemoryInACluster) {
  if (kAddressSanitizer) GTEST_SKIP() << "NOT CHECKED: there it has no section";
  if (kThreadSanitizer) {
    expect_races(write_static_shared, "write_static_shared");
  } else {
    expect_report(write_static_shared, "forward", "blocks of a cluster use static shared memory");
  }
  EXPECT_EQ(run(write_static_shared, kBlocks, kThreads, kBlocks * kThreads), kRight);
}

template <int kRank, bool kMapsTwice>
__global__ void map(int* out) {
  const auto cluster = this_cluster();
  int* mine = dynamic_shared<int>();
  if (kMapsTwice) mine = cluster.map_shared_rank(mine, 1);
  cluster.map_shared_rank(mine, kRank);
  out[blockIdx.x * kThreads + threadIdx.x] = 7;
}
TEST_F(SeededBugs, MapsWhatCannotBeMapped) {
  expect_report(map<4, false>, "forward", "the cluster has no block of this rank");
  expect_report(map<2, true>, "forward", "only dynamic shared memory of the block itself");
  expect_right(map<3, false>);
}

}  // namespace
}  // namespace specdec::cuda::inline emulated
