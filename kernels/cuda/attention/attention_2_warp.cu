// One warp per row and head. Lane l holds the elements l, l + 32, ... of the query and of the sums
// in registers, so the warp reads a key or value in whole lines of 128 bytes, and a score is a sum
// over the lanes. What is still slow: a shuffle costs as much as the few products before it, each
// position waits for the one before, and every query head and row reads all keys and values again.
#include "kernels/cuda/attention/attention_code.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr int kColumns = kMaxHeadDim / kWarp;  // elements of a lane

// Loads this lane's elements of a head's row of [D] numbers.
template <typename T>
__device__ void load(const T* from, int head_dim, float (&columns)[kColumns]) {
  for (int c = 0; c < kColumns; ++c) {
    const int d = threadIdx.x + c * kWarp;
    columns[c] = d < head_dim ? as_float(from[d]) : 0.0f;
  }
}

// Grid: rows, heads. Block: one warp.
template <typename T>
__global__ void attention_warp_kernel(ConstDeviceRows q, KvRows<T> cache, RowPlaces places,
                                      HeadShape heads, DeviceRows out) {
  const int t = blockIdx.x, h = blockIdx.y;
  const int D = heads.head_dim, kv_head = h / (heads.n_heads / heads.n_kv_heads);
  float query[kColumns], total[kColumns] = {};
  load(row_of(q, t) + h * D, D, query);
  float maximum = -FLT_MAX, weight_sum = 0.0f;
  for (int j = 0; j <= places.positions[t]; ++j) {
    const std::ptrdiff_t at = offset_of_row(places, t, j, heads) + kv_head * D;
    float key[kColumns], value[kColumns];
    load(cache.keys + at, D, key);
    load(cache.values + at, D, value);
    float product = 0.0f;
    for (int c = 0; c < kColumns; ++c) product = fmaf(query[c], key[c], product);
    const float score = warp_sum(product) * score_scale(D);
    const float new_maximum = fmaxf(maximum, score);
    const float rescale = expf(maximum - new_maximum), weight = expf(score - new_maximum);
    maximum = new_maximum;
    weight_sum = fmaf(weight_sum, rescale, weight);
    for (int c = 0; c < kColumns; ++c) total[c] = fmaf(weight, value[c], total[c] * rescale);
  }
  for (int c = 0; c < kColumns; ++c) {
    const int d = threadIdx.x + c * kWarp;
    if (d < D) (row_of(out, t) + h * D)[d] = total[c] / weight_sum;
  }
}

}  // namespace

void attention_warp(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
                    const HeadShape& heads, DeviceRows out, cudaStream_t stream) {
  const dim3 grid(q.rows, heads.n_heads);
  with_rows(cache, [&]<typename T>(KvRows<T> rows) {
    launch(attention_warp_kernel<T>, grid, kWarp, 0, stream, q, rows, places, heads, out);
  });
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
