// One thread per row and head: online softmax, with a running maximum (Milakov and Gimelshein 2018,
// algorithm 3), position by position. Neighbouring threads read keys that are a head apart, one
// float per instruction, and the sums go to memory and back at every position.
#include "kernels/cuda/attention/attention_code.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

template <typename T>
__global__ void attention_naive_kernel(ConstDeviceRows q, KvRows<T> cache, RowPlaces places,
                                       HeadShape heads, DeviceRows out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= q.rows * heads.n_heads) return;
  const int t = i / heads.n_heads, h = i % heads.n_heads, D = heads.head_dim;
  const int kv_head = h / (heads.n_heads / heads.n_kv_heads);
  const float* query = row_of(q, t) + h * D;
  float* total = row_of(out, t) + h * D;
  float maximum = -FLT_MAX, weight_sum = 0.0f;
  for (int d = 0; d < D; ++d) total[d] = 0.0f;
  for (int j = 0; j <= places.positions[t]; ++j) {
    const std::ptrdiff_t at = offset_of_row(places, t, j, heads) + kv_head * D;
    float score = 0.0f;
    for (int d = 0; d < D; ++d) score = fmaf(query[d], as_float(cache.keys[at + d]), score);
    score *= score_scale(D);
    const float new_maximum = fmaxf(maximum, score);
    const float rescale = expf(maximum - new_maximum), weight = expf(score - new_maximum);
    maximum = new_maximum;
    weight_sum = fmaf(weight_sum, rescale, weight);
    for (int d = 0; d < D; ++d) {
      total[d] = fmaf(weight, as_float(cache.values[at + d]), total[d] * rescale);
    }
  }
  for (int d = 0; d < D; ++d) total[d] /= weight_sum;
}

}  // namespace

void attention_naive(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
                     const HeadShape& heads, DeviceRows out, cudaStream_t stream) {
  with_rows(cache, [&]<typename T>(KvRows<T> rows) {
    launch(attention_naive_kernel<T>, blocks_for(q.rows * heads.n_heads, kWarp), kWarp, 0, stream,
           q, rows, places, heads, out);
  });
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
