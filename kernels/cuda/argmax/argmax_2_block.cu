// One block a row. A value and its index become one number, whose order is the order asked for: so
// the largest such number is the answer, whichever threads compare it when, and one maximum over
// the block finds it.
//
// One block of 1,024 threads reads the 513 KB of 128,256 logits at one multiprocessor's speed,
// beside the 525 MB of the matrix that the logits come from. Several blocks per row, and a second
// kernel to combine them, have not been tried.
#include <algorithm>

#include "kernels/cuda/argmax/argmax.h"
#include "kernels/cuda/device_code.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/vector4.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr int kLoads = 4;  // of a thread, on their way together

// [snippet argmax-key]
// Larger for a larger value, and among equal values for a lower index; largest, with index -1, for
// NaN. In the upper half, a float's bits in an order that unsigned numbers follow: the negative
// ones turned round, the others above them. In the lower half, the index turned round.
__device__ unsigned long long key_of(float value, int index) {
  if (value != value) return 0xffffffffull << 32;
  std::uint32_t bits = __float_as_uint(value + 0.0f);  // -0 becomes +0, its equal
  bits = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<unsigned long long>(bits) << 32 | ~static_cast<std::uint32_t>(index);
}
// [end snippet argmax-key]

__device__ int index_of(unsigned long long key) {
  return static_cast<int>(~static_cast<std::uint32_t>(key));
}

__global__ void __launch_bounds__(1024) argmax_block_kernel(ConstDeviceRows x, std::int32_t* ids) {
  const int t = static_cast<int>(blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const float* row = row_of(x, t);
  const int whole = is_aligned(row) ? x.width / 4 * 4 : 0;
  unsigned long long best = 0;
  const auto take = [&](const Vector4& values, int i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) best = Max()(best, key_of(values.at[j], i + j));
  };
  // Four loads, and then the comparisons, whose branches no load is moved across.
  int i = 4 * thread;
  const int step = 4 * threads;
  for (; i + (kLoads - 1) * step < whole; i += kLoads * step) {
    Vector4 values[kLoads];
#pragma unroll
    for (int n = 0; n < kLoads; ++n) values[n] = load4_aligned(row + i + n * step);
#pragma unroll
    for (int n = 0; n < kLoads; ++n) take(values[n], i + n * step);
  }
  for (; i < whole; i += step) take(load4_aligned(row + i), i);
  for (int j = whole + thread; j < x.width; j += threads) best = Max()(best, key_of(row[j], j));
  best = block_max(best);
  if (threadIdx.x == 0) ids[t] = index_of(best);
}

}  // namespace

void argmax_block(ConstDeviceRows x, std::int32_t* ids, cudaStream_t stream) {
  const unsigned warps = std::clamp(blocks_for(x.width, 8 * kWarp), 1u, 32u);
  launch(argmax_block_kernel, static_cast<unsigned>(x.rows), warps * kWarp, 0, stream, x, ids);
}

void argmax(ConstDeviceRows x, std::int32_t* ids, cudaStream_t stream) {
  argmax_block(x, ids, stream);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
