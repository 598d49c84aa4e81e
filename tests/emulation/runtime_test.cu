// The runtime's calls do what CUDA's do; on a GPU the same test runs with CUDA itself.
#include "tests/emulation/run.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

class Runtime : public DeviceTest {};

// Whether a call failed, and its error is the last one until it is asked for.
::testing::AssertionResult fails(cudaError_t got) {
  const cudaError_t last = cudaGetLastError(), after = cudaGetLastError();
  if (got != cudaSuccess && last == got && after == cudaSuccess) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
         << cudaGetErrorName(got) << ", the last error was " << cudaGetErrorName(last)
         << ", and then " << cudaGetErrorName(after);
}
::testing::AssertionResult fails(cudaError_t got, cudaError_t want) {
  const ::testing::AssertionResult result = fails(got);
  if (got == want) return result;
  return ::testing::AssertionFailure()
         << cudaGetErrorName(got) << ", not " << cudaGetErrorName(want);
}

__global__ void number_a_block(int* out) { out[threadIdx.x] = static_cast<int>(threadIdx.x) + 1; }

TEST_F(Runtime, CopiesAndFills) {
  const std::vector<int> values{1, 2, 3, 4};
  const Buffer<int> a(values), b(std::size_t{4});
  cuda_check(cudaMemcpyAsync(b.data(), a.data(), 16, cudaMemcpyDeviceToDevice, nullptr));
  cuda_check(cudaMemsetAsync(b.data() + 1, 0, 8, nullptr));
  cuda_check(cudaDeviceSynchronize());
  EXPECT_EQ(b.get(), (std::vector<int>{1, 0, 0, 4}));
}

TEST_F(Runtime, HasStreamsAndEvents) {
  cudaStream_t stream;
  cudaEvent_t start, stop, never;
  cuda_check(cudaStreamCreate(&stream));
  for (cudaEvent_t* event : {&start, &stop, &never}) cuda_check(cudaEventCreate(event));
  cuda_check(cudaEventRecord(start, stream));
  const Buffer<int> out(std::size_t{1024});
  launch(number_a_block, 1, 1024, 0, stream, out.data());
  cuda_check(cudaEventRecord(stop, stream));
  cuda_check(cudaEventSynchronize(stop));
  float milliseconds = -1.0f;
  cuda_check(cudaEventElapsedTime(&milliseconds, start, stop));
  EXPECT_GT(milliseconds, 0.0f);
  EXPECT_TRUE(
      fails(cudaEventElapsedTime(&milliseconds, start, never), cudaErrorInvalidResourceHandle));
  cuda_check(cudaStreamSynchronize(stream));
  for (cudaEvent_t event : {start, stop, never}) cuda_check(cudaEventDestroy(event));
  cuda_check(cudaStreamDestroy(stream));
}

// What is given to one stream happens in the order in which it was given, also across an event; and
// the default stream waits for the others.
TEST_F(Runtime, KeepsTheOrderOfAStream) {
  cudaStream_t first, second;
  cudaEvent_t numbered;
  for (cudaStream_t* stream : {&first, &second}) cuda_check(cudaStreamCreate(stream));
  cuda_check(cudaEventCreate(&numbered));
  const Buffer<int> a(std::vector<int>(4, 7)), b(std::vector<int>(4, 7)), c(std::vector<int>(4, 7));
  cuda_check(cudaMemsetAsync(a.data(), 0, 16, first));
  launch(number_a_block, 1, 3, 0, first, a.data());
  cuda_check(cudaEventRecord(numbered, first));
  cuda_check(cudaMemsetAsync(a.data(), 0, 4, first));
  cuda_check(cudaStreamWaitEvent(second, numbered));
  cuda_check(cudaMemcpyAsync(b.data(), a.data() + 1, 12, cudaMemcpyDeviceToDevice, second));
  cuda_check(cudaMemcpy(c.data(), b.data(), 16, cudaMemcpyDeviceToDevice));
  EXPECT_EQ(c.get(), (std::vector<int>{2, 3, 0, 7}));
  EXPECT_EQ(a.get(), (std::vector<int>{0, 2, 3, 0}));
  cuda_check(cudaEventDestroy(numbered));
  for (cudaStream_t stream : {first, second}) cuda_check(cudaStreamDestroy(stream));
}

__global__ void add_one(int* out) { out[threadIdx.x] += 1; }

// What a stream is given while it is captured is done by the launches of the graph, and only then.
TEST_F(Runtime, CapturesAndReplays) {
  cudaStream_t stream;
  cuda_check(cudaStreamCreate(&stream));
  const Buffer<int> out(std::vector<int>(4, 10));
  cuda_check(cudaStreamSynchronize(stream));
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  launch(add_one, 1, 4, 0, stream, out.data());
  cuda_check(cudaMemcpyAsync(out.data(), out.data() + 3, 4, cudaMemcpyDeviceToDevice, stream));
  launch(add_one, 1, 2, 0, stream, out.data());
  cuda_check(cudaStreamEndCapture(stream, &graph));
  cuda_check(cudaGraphInstantiateWithFlags(&executable, graph, 0));
  cuda_check(cudaGraphDestroy(graph));
  EXPECT_EQ(out.get(), (std::vector<int>{10, 10, 10, 10}));
  cuda_check(cudaGraphLaunch(executable, stream));
  EXPECT_EQ(out.get(), (std::vector<int>{12, 12, 11, 11}));
  cuda_check(cudaGraphLaunch(executable, stream));
  EXPECT_EQ(out.get(), (std::vector<int>{13, 14, 12, 12}));
  cuda_check(cudaGraphExecDestroy(executable));
  cuda_check(cudaStreamDestroy(stream));
}

// A call that waits is refused, and the capture with it.
TEST_F(Runtime, RefusesToWaitWhileItCaptures) {
  cudaStream_t stream;
  cuda_check(cudaStreamCreate(&stream));
  cudaGraph_t graph;
  cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  EXPECT_TRUE(fails(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported));
  EXPECT_TRUE(fails(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated));
  cuda_check(cudaStreamSynchronize(stream));
  EXPECT_TRUE(fails(cudaStreamEndCapture(stream, &graph))) << "nothing is captured";
  cuda_check(cudaStreamDestroy(stream));
}

// The error of a call that nobody asked for is what the next launch reports. cuda_check() asks.
TEST_F(Runtime, KeepsAnErrorUntilItIsAskedFor) {
  const Buffer<int> out(std::size_t{4});
  const auto launch_one = [&] { launch(number_a_block, 1, 4, 0, nullptr, out.data()); };
  EXPECT_NE(cudaSetDevice(-1), cudaSuccess);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_THROW(launch_one(), std::runtime_error);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_THROW(cuda_check(cudaSetDevice(-1)), std::runtime_error);
  launch_one();
  cudaStream_t stream;
  cuda_check(cudaStreamCreate(&stream));
  cuda_check(cudaDeviceSynchronize());
  EXPECT_TRUE(fails(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeThreadLocal)));
  cudaDeviceProp device{};
  EXPECT_TRUE(fails(cudaGetDeviceProperties(&device, -1), cudaErrorInvalidDevice));
  char host[8] = {};
  EXPECT_TRUE(fails(cudaMemcpy2D(host, 1, out.data(), 4, 4, 2, cudaMemcpyDeviceToHost)));
  EXPECT_EQ(out.get(), (std::vector<int>{1, 2, 3, 4}));
  cuda_check(cudaStreamDestroy(stream));
}

__global__ void touch_shared(char* out) {
  if (threadIdx.x < 16) dynamic_shared<char>()[threadIdx.x] = out[0];
}

// Whether launch() takes so many threads and bytes.
std::string refusal(dim3 grid, dim3 block, std::size_t shared_bytes) {
  const Buffer<char> out(std::vector<char>{0});
  try {
    launch(touch_shared, grid, block, shared_bytes, nullptr, out.data());
    cuda_check(cudaDeviceSynchronize());
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST_F(Runtime, RefusesWhatAGpuWouldRefuse) {
  EXPECT_EQ(refusal(1, 1024, 16), "");
  EXPECT_NE(refusal(1, 1025, 16).find("invalid configuration argument"), std::string::npos);
  EXPECT_NE(refusal(0, 32, 16).find("invalid configuration argument"), std::string::npos);
  EXPECT_NE(refusal(1, dim3(1, 1, 65), 16).find("invalid configuration argument"),
            std::string::npos);
  EXPECT_NE(refusal(dim3(1, 65536), 1, 16).find("invalid configuration argument"),
            std::string::npos);
  EXPECT_EQ(refusal(1, 32, 16), "");  // and goes on
}

TEST_F(Runtime, LimitsDynamicSharedMemory) {
  EXPECT_EQ(refusal(1, 32, 48 << 10), "");
  EXPECT_NE(refusal(1, 32, (48 << 10) + 1).find("invalid argument"), std::string::npos);
  cuda_check(
      cudaFuncSetAttribute(touch_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
  EXPECT_EQ(refusal(1, 32, 64 << 10), "");
  EXPECT_NE(refusal(1, 32, (64 << 10) + 1), "");
  EXPECT_TRUE(fails(
      cudaFuncSetAttribute(touch_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20)));
}

// Not that of launch.h, where every launch is.
TEST_F(Runtime, ARefusedLaunchNamesItsPlace) {
  const Buffer<char> out(1);
  const int here = __LINE__ + 2;
  try {
    launch(touch_shared, dim3(3, 2), 2048, 16, nullptr, out.data());
    ADD_FAILURE() << "2,048 threads";
  } catch (const std::runtime_error& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("runtime_test.cu:" + std::to_string(here)), std::string::npos) << what;
    EXPECT_NE(what.find("3 x 2 x 1 blocks of 2048 x 1 x 1 threads, 16 bytes"), std::string::npos)
        << what;
  }
}

TEST_F(Runtime, DescribesTheDevice) {
  cudaDeviceProp device{};
  cuda_check(cudaGetDeviceProperties(&device, 0));
  EXPECT_GE(device.major, 8);
  EXPECT_EQ(device.warpSize, 32);
  EXPECT_EQ(device.maxThreadsPerBlock, 1024);
  EXPECT_EQ(device.sharedMemPerBlock, 48u << 10);
  std::size_t free_bytes = 0, total_bytes = 0;
  cuda_check(cudaMemGetInfo(&free_bytes, &total_bytes));
  EXPECT_LE(free_bytes, total_bytes);
  EXPECT_GT(free_bytes, 0u);
}

TEST_F(Runtime, SaysWhenMemoryIsOut) {
  void* block = nullptr;
  EXPECT_TRUE(fails(cudaMalloc(&block, std::size_t{1} << 55), cudaErrorMemoryAllocation));
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
}

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
