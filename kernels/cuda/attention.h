#pragma once
#include "kernels/cuda/runtime.h"
#include "kernels/ops.h"

// Backend::attention (kernels/ops.h), step by step faster. q, out: [T, H * D]; device memory.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// One thread a row and head.
void attention_naive(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
                     const HeadShape& heads, DeviceRows out, cudaStream_t stream);

// The one that the engine calls.
void attention(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
               const HeadShape& heads, DeviceRows out, cudaStream_t stream);

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
