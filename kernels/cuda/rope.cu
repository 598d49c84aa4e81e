// A block's threads take neighbouring elements or pairs of one row, so a warp's reads and writes
// are coalesced. Grid: rows in x, which takes up to 2^31; blocks along a row in y.
#include "kernels/cuda/rope.h"
#include "kernels/cuda/rotation.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr int kThreads = 128;

dim3 grid_of(int rows, int columns) { return dim3(rows, blocks_for(columns, kThreads)); }
__device__ int row() { return blockIdx.x; }
__device__ int column() { return blockIdx.y * blockDim.x + threadIdx.x; }

__global__ void rope_angles_kernel(const std::int32_t* positions, const float* frequencies,
                                   DeviceRows cosines, DeviceRows sines) {
  await_kernels_before();
  const int t = row(), i = column();
  if (i >= cosines.width) return;
  const float angle = positions[t] * frequencies[i];
  row_of(cosines, t)[i] = cosf(angle);
  row_of(sines, t)[i] = sinf(angle);
}

// Each thread rotates one pair.
__global__ void rope_kernel(DeviceRows x, ConstDeviceRows cosines, ConstDeviceRows sines) {
  await_kernels_before();
  const int t = row(), n = column(), half = cosines.width;
  if (n >= x.width / 2) return;
  float* start = row_of(x, t) + start_of_pair(n, half);
  put(start, half,
      turned(pair_at(start, half), row_of(cosines, t)[n % half], row_of(sines, t)[n % half]));
}

template <typename T>
__global__ void store_kv_kernel(ConstDeviceRows k, ConstDeviceRows v, const std::int32_t* slots,
                                KvRows<T> cache) {
  await_kernels_before();
  const int t = row(), i = column();
  if (i >= k.width) return;
  const std::ptrdiff_t to = std::ptrdiff_t{slots[t]} * k.width + i;
  round_to(row_of(k, t)[i], cache.keys[to]);
  round_to(row_of(v, t)[i], cache.values[to]);
}

// Each thread has one pair of q, k or v: it rotates pairs of q and k, and stores pairs of k and v.
template <typename T>
__global__ void rope_store_kv_kernel(DeviceRows q, DeviceRows k, ConstDeviceRows v,
                                     ConstDeviceRows cosines, ConstDeviceRows sines,
                                     const std::int32_t* slots, KvRows<T> cache) {
  await_kernels_before();
  const int t = row(), half = cosines.width;
  int n = column();
  const auto turn = [&](float* start) {
    const Pair pair =
        turned(pair_at(start, half), row_of(cosines, t)[n % half], row_of(sines, t)[n % half]);
    put(start, half, pair);
    return pair;
  };
  const auto store = [&](T* slots_of, Pair pair) {
    const std::ptrdiff_t slot = std::ptrdiff_t{slots[t]} * k.width;
    put(slots_of + slot + start_of_pair(n, half), half, pair);
  };
  if (n < q.width / 2) {
    turn(row_of(q, t) + start_of_pair(n, half));
    return;
  }
  n -= q.width / 2;
  if (n < k.width / 2) {
    store(cache.keys, turn(row_of(k, t) + start_of_pair(n, half)));
    return;
  }
  n -= k.width / 2;
  if (n < v.width / 2) {
    store(cache.values, pair_at(row_of(v, t) + start_of_pair(n, half), half));
  }
}

}  // namespace

void rope_angles(const std::int32_t* positions, const float* frequencies, DeviceRows cosines,
                 DeviceRows sines, cudaStream_t stream) {
  launch(rope_angles_kernel, grid_of(cosines.rows, cosines.width), kThreads, 0, early(stream),
         positions, frequencies, cosines, sines);
}

void rope(DeviceRows x, ConstDeviceRows cosines, ConstDeviceRows sines, cudaStream_t stream) {
  launch(rope_kernel, grid_of(x.rows, x.width / 2), kThreads, 0, early(stream), x, cosines, sines);
}

void store_kv(ConstDeviceRows k, ConstDeviceRows v, const RowPlaces& places, KvLayer cache,
              cudaStream_t stream) {
  with_rows(cache, [&]<typename T>(KvRows<T> rows) {
    launch(store_kv_kernel<T>, grid_of(k.rows, k.width), kThreads, 0, early(stream), k, v,
           places.slots, rows);
  });
}

void rope_store_kv(DeviceRows q, DeviceRows k, ConstDeviceRows v, ConstDeviceRows cosines,
                   ConstDeviceRows sines, const RowPlaces& places, KvLayer cache,
                   cudaStream_t stream) {
  with_rows(cache, [&]<typename T>(KvRows<T> rows) {
    launch(rope_store_kv_kernel<T>, grid_of(q.rows, (q.width + k.width + v.width) / 2), kThreads, 0,
           early(stream), q, k, v, cosines, sines, places.slots, rows);
  });
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
