#pragma once
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/launch.h"
#include "tests/require_gpu.h"

// Runs kernels that write one array. Device code: included by .cu files alone.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// Skipped where there is nothing to run on.
class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0) end_without_gpu(cudaGetErrorString(error));
  }
};

// Device memory of exactly so many elements.
template <typename T>
class Buffer {
 public:
  explicit Buffer(std::size_t size) : size_(size) {
    cuda_check(cudaMalloc(&data_, size * sizeof(T)));
  }
  explicit Buffer(const std::vector<T>& values) : Buffer(values.size()) {
    cuda_check(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~Buffer() { cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() const { return data_; }
  std::vector<T> get() const {
    std::vector<T> values(size_);
    cuda_check(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

// What kernel(out) writes to out[0 .. size), which starts as `fill`.
template <typename T>
std::vector<T> run(void (*kernel)(T*), dim3 grid, dim3 block, std::size_t size, T fill = T{},
                   std::size_t shared_bytes = 0, LaunchStream at = cudaStream_t{}) {
  const Buffer<T> out(std::vector<T>(size, fill));
  launch(kernel, grid, block, shared_bytes, at, out.data());
  return out.get();
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
