#pragma once
#include "kernels/cuda/device_code.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// One element of Backend::silu_mul. Device code.
__device__ inline float silu_mul(float gate, float up) { return gate / (1.0f + expf(-gate)) * up; }

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
