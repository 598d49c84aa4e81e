// One block for all queries that read the same keys and values (attention_tiles.h), over the whole
// context. All query heads of a group and several rows share each read of a key or value, where
// step 2 read them for each. What is still slow: one row makes only one block per key and value
// head, perhaps 8 on a GPU with more than 100 multiprocessors, so a long context takes long.
#include "kernels/cuda/attention/attention_tiles.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

template <bool kVectors, int kColumns, typename T>
__global__ void __launch_bounds__(kBlockThreads, kBlocksAtOnce)
    attention_grouped_kernel(AttentionInputs<T> in, DeviceRows out) {
  await_kernels_before();
  const BlockQueries block = queries_of_block<AttentionTile<kColumns, T>::kQueries>(in);
  if (block.rows == 0) return;
  const auto write = [&](int i, const RunningSoftmax<kColumns>& softmax) {
    float* to = row_of(out, block.row(i)) + block.head(i) * in.heads.head_dim;
    for (int c = 0; c < kColumns; ++c) {
      const int d = element_of<kColumns>(threadIdx.x % kWarp, c);
      if (d < in.heads.head_dim) to[d] = softmax.total[c] / softmax.weight_sum;
    }
  };
  attend<kVectors, kColumns>(in, block, 0, block.last + 1, write);
}

}  // namespace

void attention_grouped(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
                       const HeadShape& heads, DeviceRows out, cudaStream_t stream, int most_rows) {
  with_tile(cache, heads.head_dim, [&]<bool kVectors, int kColumns, typename T>(KvRows<T> rows) {
    const RowGroups groups(AttentionTile<kColumns, T>::kQueries, q, places, heads, 1, most_rows);
    launch(attention_grouped_kernel<kVectors, kColumns, T>, groups.grid(), kBlockThreads, 0,
           early(stream), AttentionInputs<T>{{q, places, heads, groups}, rows}, out);
  });
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
