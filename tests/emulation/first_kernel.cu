// A first kernel: the sum of 1 to 128 by one block. docs/emulation runs it, breaks it, and looks
// at one of its threads.
#include <cstdio>
#include <numeric>
#include <vector>

#include "kernels/cuda/launch.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// [snippet first-kernel]
constexpr int kThreads = 128;

// Each step adds the upper half of the partial sums to the lower half.
__global__ void sum_kernel(const int* numbers, int* sum) {
  __shared__ int partial[kThreads];
  const unsigned t = threadIdx.x;
  partial[t] = numbers[t];
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (t < half) partial[t] += partial[t + half];
    __syncthreads();
  }
  if (t == 0) *sum = partial[0];
}
// [end snippet first-kernel]

int run() {
  std::vector<int> numbers(kThreads);
  std::iota(numbers.begin(), numbers.end(), 1);
  int *device_numbers, *device_sum, sum;
  cuda_check(cudaMalloc(&device_numbers, kThreads * sizeof(int)));
  cuda_check(cudaMalloc(&device_sum, sizeof(int)));
  cuda_check(
      cudaMemcpy(device_numbers, numbers.data(), kThreads * sizeof(int), cudaMemcpyHostToDevice));
  launch(sum_kernel, 1, kThreads, 0, nullptr, device_numbers, device_sum);
  cuda_check(cudaMemcpy(&sum, device_sum, sizeof(int), cudaMemcpyDeviceToHost));
  cuda_check(cudaFree(device_numbers));
  cuda_check(cudaFree(device_sum));
  std::printf("sum %d, expected %d\n", sum, kThreads * (kThreads + 1) / 2);
  return sum == kThreads * (kThreads + 1) / 2 ? 0 : 1;
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD

int main() { return specdec::cuda::run(); }
