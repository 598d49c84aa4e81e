#pragma once

// CUDA's declarations: NVIDIA's headers, or our emulation's if the kernels run on the CPU. One
// program may contain both builds of the same sources, so each has its own namespace:
// specdec::cuda::gpu and specdec::cuda::emulated.
#ifdef SPECDEC_EMULATED
#include "kernels/emulation/cuda_on_cpu.h"
#define SPECDEC_CUDA_BUILD emulated
#else
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define SPECDEC_CUDA_BUILD gpu
#endif
