#pragma once
#ifndef SPECDEC_EMULATED
#include <cooperative_groups.h>
#endif

#include "kernels/cuda/device_code.h"

// Clusters: blocks that run at the same time, meet at a barrier, and use each other's shared memory
// (compute capability 9.0; "distributed shared memory"). A launch gets them by in_clusters().
//
//   cluster.sync()                      all threads of the cluster meet
//   cluster.block_rank(), num_blocks()  the block's number in its cluster, and their number
//   cluster.map_shared_rank(p, r)       where block r has what this block has at p
//
// A block may use another block's memory only after that block has begun and before it ends. So a
// kernel calls sync() before the first access and after the last one. Device code.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
struct Cluster {  // an older GPU has none, so no launch gets here
  __device__ static void sync() { __trap(); }
  __device__ static unsigned block_rank() { return 0; }
  __device__ static unsigned num_blocks() { return 1; }
  template <typename T>
  __device__ static T* map_shared_rank(T* address, int) {
    return address;
  }
};
__device__ inline Cluster this_cluster() { return {}; }
#else
using cooperative_groups::this_cluster;
#endif

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
