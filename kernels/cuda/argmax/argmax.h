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

// The one that the engine calls.
void argmax(ConstDeviceRows x, std::int32_t* ids, cudaStream_t stream);

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
