#pragma once

// The part of CUDA that our kernels and their host code use, for an ordinary C++ compiler. With
// this header instead of NVIDIA's, a .cu file is a C++ file, and its kernels run on the CPU:
// docs/emulation explains how.
//
//   vector_types.h       float4, dim3, ...
//   half.h               __half, __nv_bfloat16
//   device_functions.h   functions of a single thread
//   atomics.h            atomicAdd, ...
//   collectives.h        functions of several threads: __syncthreads, shuffles, votes
//   cluster_group.h      several blocks that run together
//   tensor_cores.h       the tensor cores' product of two tiles, and how they add
//   warpgroup.h          products of four warps, and how they add
//   shared_barriers.h    barriers in shared memory, and copies of boxes
//   tensor_map.h         the matrices of these copies
//   copy_queue.h         a thread's asynchronous copies
//   runtime_calls.h      the host's calls: cudaMalloc, streams, events
//   streams.h            when the device executes the work in a stream
//   scheduler.h          runs the threads of a grid, on the stacks of fibers.h, by thread_order.h

// [snippet keywords]
#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// Only one block runs at a time, so the shared memory of a block can be ordinary static variables.
// (Blocks of a cluster run together: they use dynamic shared memory alone.) Static variables have
// their own section, which is filled with NaNs before each block. There are two exceptions: g++ 12
// ignores the section in templates, and its AddressSanitizer does not check variables that have a
// section.
#ifdef __SANITIZE_ADDRESS__
#define __shared__ static
#else
#define __shared__ static __attribute__((section("cuda_shared")))
#endif
// [end snippet keywords]

#include "kernels/emulation/atomics.h"
#include "kernels/emulation/cluster_group.h"
#include "kernels/emulation/collectives.h"
#include "kernels/emulation/copy_queue.h"
#include "kernels/emulation/device_functions.h"
#include "kernels/emulation/half.h"
#include "kernels/emulation/runtime_calls.h"
#include "kernels/emulation/scheduler.h"
#include "kernels/emulation/shared_barriers.h"
#include "kernels/emulation/streams.h"
#include "kernels/emulation/tensor_cores.h"
#include "kernels/emulation/tensor_map.h"
#include "kernels/emulation/vector_types.h"
#include "kernels/emulation/warpgroup.h"
