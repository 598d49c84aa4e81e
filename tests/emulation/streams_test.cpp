// The emulation's streams do their work as late as a GPU may: so what is read or changed too early
// is wrong here every time, where a GPU may hide it for years.
#include <array>

#include <gtest/gtest.h>

#include "kernels/emulation/cuda_on_cpu.h"

namespace specdec::emulation {
namespace {

using Numbers = std::array<int, 2>;
constexpr Numbers kOld = {1, 2}, kNew = {3, 4};

class StreamsTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(cudaStreamCreate(&stream_), cudaSuccess); }
  void TearDown() override { EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess); }

  static void copy(const Numbers& from, Numbers& to, cudaStream_t stream) {
    ASSERT_EQ(cudaMemcpyAsync(to.data(), from.data(), sizeof from, cudaMemcpyHostToDevice, stream),
              cudaSuccess);
  }

  cudaStream_t stream_ = nullptr;
};

TEST_F(StreamsTest, WorkWaitsForTheHostToWait) {
  const Numbers from = kNew;
  Numbers to = kOld;
  copy(from, to, stream_);
  EXPECT_EQ(to, kOld);
  cudaStreamSynchronize(stream_);
  EXPECT_EQ(to, kNew);
}

TEST_F(StreamsTest, ACopyTakesWhatIsThereWhenItRuns) {
  Numbers from = kOld, to = {};
  copy(from, to, stream_);
  from = kNew;  // too early
  cudaStreamSynchronize(stream_);
  EXPECT_EQ(to, kNew);
}

TEST_F(StreamsTest, WaitsForOneStreamAlone) {
  cudaStream_t other;
  cudaStreamCreate(&other);
  Numbers mine = kOld, others = kOld;
  copy(kNew, mine, stream_);
  copy(kNew, others, other);
  cudaStreamSynchronize(other);
  EXPECT_EQ(others, kNew);
  EXPECT_EQ(mine, kOld);
  cudaStreamDestroy(other);
}

TEST_F(StreamsTest, AnEventComesBeforeWhatFollowsIt) {
  Numbers before = kOld, after = kOld;
  cudaEvent_t event;
  cudaEventCreate(&event);
  copy(kNew, before, stream_);
  cudaEventRecord(event, stream_);
  copy(kNew, after, stream_);
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, event, event), cudaErrorNotReady);
  cudaEventSynchronize(event);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, event, event), cudaSuccess);
  EXPECT_EQ(before, kNew);
  EXPECT_EQ(after, kOld);
  cudaEventDestroy(event);
}

// As CUDA's: of the other streams, those that were not made with cudaStreamNonBlocking.
TEST_F(StreamsTest, TheDefaultStreamWaitsForTheOthers) {
  cudaStream_t apart;
  cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking);
  Numbers mine = kOld, others = kOld, seen = {};
  copy(kNew, mine, stream_);
  copy(kNew, others, apart);
  copy(mine, seen, nullptr);
  EXPECT_EQ(seen, kNew);
  EXPECT_EQ(others, kOld);
  cudaDeviceSynchronize();
  EXPECT_EQ(others, kNew);
  cudaStreamDestroy(apart);
}

TEST_F(StreamsTest, MemoryIsFreedAfterItsLastUse) {
  int* block = nullptr;
  Numbers to = kOld;
  cudaMalloc(&block, sizeof to);
  cudaMemcpy(block, kNew.data(), sizeof to, cudaMemcpyHostToDevice);
  cudaMemcpyAsync(to.data(), block, sizeof to, cudaMemcpyDeviceToHost, stream_);
  cudaFree(block);
  EXPECT_EQ(to, kNew);
}

TEST_F(StreamsTest, CountsCopiesAndWaits) {
  const Traffic before = traffic();
  Numbers to = kOld;
  copy(kNew, to, stream_);
  EXPECT_EQ((traffic() - before).waits, 0u);
  cudaStreamSynchronize(stream_);
  cudaMemcpy(to.data(), kOld.data(), 4, cudaMemcpyDeviceToHost);
  const Traffic run = traffic() - before;
  EXPECT_EQ(run.waits, 2u);
  EXPECT_EQ(run.uploads, 1u);
  EXPECT_EQ(run.downloads, 1u);
  EXPECT_EQ(run.bytes_to_device, sizeof to);
  EXPECT_EQ(run.bytes_to_host, 4u);
  EXPECT_EQ(run.launches, 0u);
}

}  // namespace
}  // namespace specdec::emulation
