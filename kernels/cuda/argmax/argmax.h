#pragma once
#include <cstdint>

#include "kernels/cuda/runtime.h"
#include "kernels/device_memory.h"

// Backend::argmax (kernels/ops.h) in steps, each faster than the one before. x: [T, V], V > 0;
// ids: [T]; device memory.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// One thread per row.
void argmax_naive(ConstDeviceRows x, std::int32_t* ids, cudaStream_t stream);

// One block per row.
void argmax_block(ConstDeviceRows x, std::int32_t* ids, cudaStream_t stream);

// Device memory that the blocks of a row share: [T] each, zero before and after a launch.
struct ArgmaxScratch {
  unsigned long long* keys = nullptr;
  unsigned* blocks_done = nullptr;
};

// Several blocks per row, at most 65,535 rows.
void argmax_blocks(ConstDeviceRows x, std::int32_t* ids, ArgmaxScratch scratch,
                   cudaStream_t stream);

// What the engine calls.
void argmax(ConstDeviceRows x, std::int32_t* ids, ArgmaxScratch scratch, cudaStream_t stream);

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
