#pragma once

// CUDA's vocabulary: NVIDIA's headers, or our emulation's where the kernels run on the CPU. Both
// builds of the same sources may be parts of one program, so each has a namespace of its own:
// specdec::cuda::gpu and specdec::cuda::emulated.
#ifdef SPECDEC_EMULATED
#include "kernels/emulation/cuda_on_cpu.h"
#define SPECDEC_CUDA_BUILD emulated
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define SPECDEC_CUDA_BUILD gpu
#endif
