// Kernels that begin before the one in front of them has ended: the emulation lets them begin as
// early as a GPU may, so what they read before they wait for that one is old. In a stream, and in a
// graph of it.
#include "kernels/cuda/async_copy.h"
#include "tests/emulation/run.h"

#ifndef __has_feature
#define __has_feature(feature) 0  // g++ 12
#endif
constexpr bool kThreadSanitizer = __has_feature(thread_sanitizer);
// A race ends the program, so that a test can see it.
extern "C" const char* __tsan_default_options() { return "halt_on_error=1"; }

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr int kThreads = 64;
constexpr int kOld = 1, kNew = 2;

__global__ void write_new(int* out) {
  await_kernels_before();
  out[blockIdx.x * blockDim.x + threadIdx.x] = kNew;
}

enum class Reads { kAfterWaiting, kBeforeWaiting };

template <Reads kReads>
__global__ void copy_kernel(const int* from, int* to) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  int value = 0;
  if (kReads == Reads::kBeforeWaiting) value = *static_cast<const volatile int*>(from + i);
  await_kernels_before();
  to[i] = kReads == Reads::kBeforeWaiting ? value : from[i];
}

// Lets the next kernel begin only after its own wait, as CUDA allows, too.
__global__ void wait_first() {
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();
}
__global__ void let_next_begin_first() { await_kernels_before(); }

__global__ void copy_without_waiting(const int* from, int* to) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = from[i];
}

// A copy that is on its way while the block waits.
__global__ void copy_on_its_way(const int* from, int* to) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  int* shared = dynamic_shared<int>() + threadIdx.x;
  AsyncCopies copies;
  copies.copy4(shared, from + i);
  await_kernels_before();
  copies.wait();
  to[i] = *shared;
}

// Warps meet before they wait, and the block afterwards, in shared memory.
__global__ void reverse_block(const int* from, int* to) {
  __syncthreads();
  const int mask = __any_sync(0xffffffffu, 1);
  await_kernels_before();
  int* shared = dynamic_shared<int>();
  shared[threadIdx.x] = mask * from[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  to[blockIdx.x * blockDim.x + threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

class EarlyLaunchTest : public ::testing::Test {
 protected:
  using Copy = void (*)(const int*, int*);

  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    cuda_check(cudaStreamCreate(&stream_));
  }
  void TearDown() override {
    cuda_check(cudaStreamDestroy(stream_));
    unsetenv("SPECDEC_CUDA_EARLY");
  }

  void fill_old() {
    const std::vector<int> old(kCount, kOld);
    for (const Buffer<int>* buffer : {&a_, &b_, &c_}) {
      cuda_check(
          cudaMemcpy(buffer->data(), old.data(), kCount * sizeof(int), cudaMemcpyHostToDevice));
    }
  }
  void ask(Copy copy) {
    launch(write_new, 2, kThreads, 0, early(stream_), a_.data());
    launch(copy, 2, kThreads, kThreads * sizeof(int), early(stream_), a_.data(), b_.data());
    launch(copy, 2, kThreads, kThreads * sizeof(int), early(stream_), b_.data(), c_.data());
  }
  std::vector<int> answer() {
    cuda_check(cudaStreamSynchronize(stream_));
    return c_.get();
  }
  std::vector<int> copied_by(Copy copy) {
    ask(copy);
    return answer();
  }
  std::vector<int> copied_in_a_graph(Copy copy) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cuda_check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    ask(copy);
    cuda_check(cudaStreamEndCapture(stream_, &graph));
    cuda_check(cudaGraphInstantiateWithFlags(&executable, graph, 0));
    cuda_check(cudaGraphLaunch(executable, stream_));
    const std::vector<int> copied = answer();
    cuda_check(cudaGraphExecDestroy(executable));
    cuda_check(cudaGraphDestroy(graph));
    return copied;
  }

  static constexpr std::size_t kCount = 2 * kThreads;
  cudaStream_t stream_ = nullptr;
  Buffer<int> a_{std::vector<int>(kCount, kOld)}, b_{std::vector<int>(kCount, kOld)},
      c_{std::vector<int>(kCount, kOld)};
};

const std::vector<int> kAllNew(std::size_t{2 * kThreads}, kNew);

TEST_F(EarlyLaunchTest, SeesWhatTheKernelBeforeWrote) {
  EXPECT_EQ(copied_by(copy_kernel<Reads::kAfterWaiting>), kAllNew);
  EXPECT_EQ(copied_in_a_graph(copy_kernel<Reads::kAfterWaiting>), kAllNew);
}

// Of the first block, which has begun early. To ThreadSanitizer it is a race.
TEST_F(EarlyLaunchTest, WhatIsReadBeforeWaitingIsOld) {
  constexpr auto kCopy = copy_kernel<Reads::kBeforeWaiting>;
  if (kThreadSanitizer) {
    EXPECT_DEATH(copied_by(kCopy), "data race(.|\n)*copy_kernel");
    return;
  }
  std::vector<int> want = kAllNew;
  std::fill_n(want.begin(), kThreads, kOld);
  EXPECT_EQ(copied_by(kCopy), want);
  fill_old();
  EXPECT_EQ(copied_in_a_graph(kCopy), want);
}

// Two kernels after the one that writes. If the first of them lets the second begin before it has
// waited itself, the second reads what is older than both.
TEST_F(EarlyLaunchTest, AChainOfKernelsBeginsBeforeTheFirst) {
  if (kThreadSanitizer) GTEST_SKIP() << "a race, as above";
  const auto behind = [&](void (*between)()) {
    launch(write_new, 2, kThreads, 0, early(stream_), a_.data());
    launch(between, 2, kThreads, 0, early(stream_));
    launch(copy_kernel<Reads::kBeforeWaiting>, 2, kThreads, 0, early(stream_), a_.data(),
           c_.data());
    return answer();
  };
  std::vector<int> half_old = kAllNew;
  std::fill_n(half_old.begin(), kThreads, kOld);
  EXPECT_EQ(behind(let_next_begin_first), half_old);
  fill_old();
  EXPECT_EQ(behind(wait_first), kAllNew);
}

TEST_F(EarlyLaunchTest, AKernelThatDoesNotWaitIsReported) {
  EXPECT_DEATH(copied_by(copy_without_waiting),
               "CUDA emulation: a thread has ended without waiting for the kernel before");
}

TEST_F(EarlyLaunchTest, ACopyBeforeWaitingIsReported) {
  EXPECT_DEATH(copied_by(copy_on_its_way),
               kThreadSanitizer ? "data race(.|\n)*copy_on_its_way"
                                : "what an asynchronous copy reads was changed in flight");
}

TEST_F(EarlyLaunchTest, CanBeTurnedOff) {
  setenv("SPECDEC_CUDA_EARLY", "0", 1);
  EXPECT_EQ(copied_by(copy_kernel<Reads::kBeforeWaiting>), kAllNew);
  EXPECT_EQ(copied_by(copy_without_waiting), kAllNew);
  EXPECT_EQ(copied_by(copy_on_its_way), kAllNew);
}

// Behind a copy nothing begins early, nor where the host waits between the two.
TEST_F(EarlyLaunchTest, OnlyKernelsOverlap) {
  launch(write_new, 2, kThreads, 0, early(stream_), a_.data());
  cuda_check(cudaMemcpyAsync(b_.data(), a_.data(), kCount * sizeof(int), cudaMemcpyDeviceToDevice,
                             stream_));
  launch(copy_kernel<Reads::kBeforeWaiting>, 2, kThreads, 0, early(stream_), b_.data(), c_.data());
  EXPECT_EQ(answer(), kAllNew);
}

TEST_F(EarlyLaunchTest, BlocksMayMeetBeforeAndAfterwards) {
  for (const char* order : {"forward", "reverse", "random"}) {
    setenv("SPECDEC_THREAD_ORDER", order, 1);
    EXPECT_EQ(copied_by(reverse_block), kAllNew) << order;
  }
  unsetenv("SPECDEC_THREAD_ORDER");
}

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
