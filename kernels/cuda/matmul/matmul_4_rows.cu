// One block for 4 products and a tile of rows of x: 1, 2, 4, 8 or 16 rows, as few as hold them all.
// A thread takes 16 bytes of each output's weights, and multiplies them with the inputs of every
// row of the tile while they are in registers. So a verification of K + 1 rows reads the weights
// once, like a decode step, and each loaded input is used for 4 outputs. Every block reads the
// inputs again; how many of these reads hit L1 has not been measured (a tile of 16 rows of 2,048
// floats is 128 KiB).
//
// The reads, with bf16 weights and W warps: in step s, thread i of the block reads weights
// 8 (32 W s + i) .. + 7 of 4 rows of the matrix. Then warp_sums adds the threads' sums of 4 outputs
// x R rows, and shared memory adds those of the warps.
//
// The order of an element's sum: the products of a thread one after the other, the lanes as a tree,
// the warps in order. The tile does not matter, because a thread has a separate sum for each row. W
// depends only on the matrix.
//
// `Then` adds the products to y, or computes SwiGLU of them, without another launch and without a
// trip through memory. For SwiGLU, a block's 4 products are two gates and their two factors, so
// that a warp has both numbers of a pair.
//
// Blocks of the same rows are neighbours in the grid. With 16 rows, a block reads 64 bytes of
// inputs per 8 bytes of bf16 weights, so it is the inputs that neighbours should share: through L1
// within a multiprocessor, as far as they fit, otherwise through L2. The next tile reads all
// weights again.
#include <algorithm>

#include "kernels/cuda/device_code.h"
#include "kernels/cuda/matmul/matmul.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/silu.h"
#include "kernels/cuda/vector4.h"
#include "kernels/cuda/weights.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr int kOutputs = 4;  // per block
constexpr int kMostWarps = 4;
// Blocks per multiprocessor, as registers allow: 128, 168 or 255 per thread.
template <int kRows>
[[maybe_unused]] constexpr int kBlocksAtOnce = kRows <= 4   ? 4
                                               : kRows <= 8 ? 3
                                                            : 2;

// The rows of the matrix for a block: from n on, or for SwiGLU from n on in each half. Past the
// end, repeat the last row.
template <typename T>
struct BlockOutputs {
  int at[kOutputs];

  __device__ BlockOutputs(const Weights<T>& weight, int n, Then then) {
    const int half = weight.rows / 2;
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) {
      at[o] = then == Then::kSiluMul ? o / 2 * half + min(n + o % 2, half - 1)
                                     : min(n + o, weight.rows - 1);
    }
  }
};

// Prefetches this thread's first weights while the previous kernel ends.
template <typename T>
__device__ void prefetch_first(const Weights<T>& weight, const BlockOutputs<T>& outputs) {
  constexpr int kSteps = 2;
  const int step = blockDim.x;
  int g = threadIdx.x;
  for (int n = 0; n < kSteps && g < weight.loads(); ++n, g += step) {
    for (const int o : outputs.at) prefetch(weight.row(o) + g);
  }
}

// totals[o * kRows + r] += this thread's part of output o of row t + r. kWhole: rows of x are
// aligned to 16 bytes, and their width is a multiple of a group.
template <typename T, int kRows, bool kWhole>
__device__ void multiply(const ConstDeviceRows& x, const Weights<T>& weight, int t,
                         const BlockOutputs<T>& outputs, float (&totals)[kOutputs * kRows]) {
  const float* rows[kRows];  // past the end, repeat the last row
#pragma unroll
  for (int r = 0; r < kRows; ++r) rows[r] = row_of(x, min(t + r, x.rows - 1));
  const uint4* of_outputs[kOutputs];
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) of_outputs[o] = weight.row(outputs.at[o]);
  const int last = weight.loads() - 1, step = blockDim.x;
  Group<T> next[kOutputs];
  const auto load = [&](int g) {  // past the end, repeat the last group
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) {
      next[o] = weight.group(of_outputs[o], outputs.at[o], min(g, last));
    }
  };
  load(threadIdx.x);
  for (int g = threadIdx.x; g <= last; g += step) {
    // [snippet matmul-rows]
    Group<T> w[kOutputs];
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) w[o] = next[o];
    load(g + step);  // in flight while these are multiplied
#pragma unroll
    for (int j = 0; j < kGroup<T>; j += 4) {
      const int k = g * kGroup<T> + j;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const Vector4 in = kWhole ? load4_aligned(rows[r] + k) : load4(rows[r] + k, x.width - k);
#pragma unroll
        for (int o = 0; o < kOutputs; ++o) {
          float& total = totals[o * kRows + r];
#pragma unroll
          for (int i = 0; i < 4; ++i) total = fmaf(in.at[i], w[o].number(j + i), total);
        }
      }
    }
    // [end snippet matmul-rows]
  }
}

// Columns of y that a block writes.
__host__ __device__ constexpr int columns_of_block(Then then) {
  return then == Then::kSiluMul ? kOutputs / 2 : kOutputs;
}

template <typename T, int kRows, bool kWhole>
__global__ void __launch_bounds__(kMostWarps* kWarp, kBlocksAtOnce<kRows>)
    matmul_rows_kernel(ConstDeviceRows x, Weights<T> weight, DeviceRows y, Then then) {
  constexpr int kCount = kOutputs * kRows, kMine = kSumsOfLane<kCount>;
  const int columns = columns_of_block(then);
  const int parts = (y.width + columns - 1) / columns;
  const int block = blockIdx.x, n = block % parts * columns, t = block / parts * kRows;
  const BlockOutputs<T> outputs(weight, n, then);
  prefetch_first(weight, outputs);
  await_kernels_before();
  float totals[kCount] = {};
  multiply<T, kRows, kWhole>(x, weight, t, outputs, totals);
  warp_sums<kCount>(totals);

  const int thread = threadIdx.x, threads = blockDim.x;
  const int lane = thread % kWarp, warp = thread / kWarp, warps = threads / kWarp;
  __shared__ float of_warps[kMostWarps][kWarp][kMine];
  if (warps > 1) {
#pragma unroll
    for (int i = 0; i < kMine; ++i) of_warps[warp][lane][i] = totals[i];
    __syncthreads();
  }
  if (warp > 0) return;
  for (int w = 1; w < warps; ++w) {
#pragma unroll
    for (int i = 0; i < kMine; ++i) totals[i] += of_warps[w][lane][i];
  }
  // [snippet matmul-then]
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    const int number = lane * kCount / kWarp + i;
    const int o = number / kRows, row = t + number % kRows;
    float product = weight.scale(outputs.at[o]) * totals[i];
    if (then == Then::kSiluMul) {  // lanes 0 .. 15 have the gates, 16 .. 31 their factors
      const float factor = __shfl_down_sync(kAllLanes, product, kWarp / 2);
      product = silu_mul(product, factor);
    }
    // Duplicate lanes write nothing, nor does anything past the last row or output.
    if (lane * kCount % kWarp != 0 || row >= x.rows || o >= columns || n + o >= y.width) continue;
    float& element = row_of(y, row)[n + o];
    element = then == Then::kAdd ? element + product : product;
  }
  // [end snippet matmul-then]
}

template <typename T, int kRows>
void launch_rows(Then then, ConstDeviceRows x, const Weights<T>& w, DeviceRows y,
                 cudaStream_t stream) {
  const bool whole = is_aligned(x.data) && x.stride % 4 == 0 && x.width % kGroup<T> == 0;
  const unsigned warps = std::clamp(blocks_for(w.loads(), 2 * kWarp), 1u, unsigned{kMostWarps});
  launch(whole ? matmul_rows_kernel<T, kRows, true> : matmul_rows_kernel<T, kRows, false>,
         blocks_for(x.rows, kRows) * blocks_for(y.width, columns_of_block(then)), warps * kWarp, 0,
         early(stream), x, w, y, then);
}

}  // namespace

void matmul_rows_then(Then then, ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y,
                      cudaStream_t stream) {
  with_weights(weight, [&]<typename T>(const Weights<T>& w) {
    if (x.rows > 8) return launch_rows<T, 16>(then, x, w, y, stream);
    if (x.rows > 4) return launch_rows<T, 8>(then, x, w, y, stream);
    if (x.rows > 2) return launch_rows<T, 4>(then, x, w, y, stream);
    if (x.rows > 1) return launch_rows<T, 2>(then, x, w, y, stream);
    launch_rows<T, 1>(then, x, w, y, stream);
  });
}

void matmul_rows(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream) {
  matmul_rows_then(Then::kStore, x, weight, y, stream);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
