#pragma once
#include <cstdint>

#include "kernels/cuda/runtime.h"
#include "kernels/device_memory.h"

// Backend::argmax (kernels/ops.h), step by step faster. x: [T, V], V > 0; ids: [T]; device memory.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// One thread a row.
void argmax_naive(ConstDeviceRows x, std::int32_t* ids, cudaStream_t stream);

// One block a row.
void argmax_block(ConstDeviceRows x, std::int32_t* ids, cudaStream_t stream);

// What the blocks of a row share, in device memory: [T] each, zeros before and afterwards.
struct ArgmaxScratch {
  unsigned long long* keys = nullptr;
  unsigned* blocks_done = nullptr;
};

// Several blocks a row, at most 65,535 rows.
void argmax_blocks(ConstDeviceRows x, std::int32_t* ids, ArgmaxScratch scratch,
                   cudaStream_t stream);

// The one that the engine calls.
void argmax(ConstDeviceRows x, std::int32_t* ids, ArgmaxScratch scratch, cudaStream_t stream);

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
