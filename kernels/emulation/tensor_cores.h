#pragma once
#include "kernels/emulation/scheduler.h"

// Tensor cores: mma.sync.m16n8k16 with operands of bf16 and sums of float32.
//
// NVIDIA does not document how they add. Experiments (Fasi, Higham, Mikaitis and Pranesh, 2021; Li
// et al., 2024) found: products are exact; some of them and the sum so far are added at a time;
// each term is cut off, not rounded, at the last bit of the largest one's float32 or a few bits
// below it; and so is the result. The emulated ones do the same, and keep no bits below it. How
// many products are added at a time differs between GPUs, so tests try several.
namespace specdec::emulation {

struct TensorCoreModel {
  int block = 8;       // products that are added at a time: 4, 8 or 16
  int extra_bits = 0;  // kept of each term below the last bit of the largest
};
TensorCoreModel& tensor_core_model();

// total += A B[0], then A B[1], ..., `parts` of them, in the registers of PTX (tensor_core.h of
// kernels/cuda/matmul): of a lane a[4], b[parts][2], total[4].
void multiply_tiles(const unsigned* a, const unsigned* b, int parts, float* total,
                    SPECDEC_CALL_SITE);

// sums[m] += a[k][m] b[k] for all k, as the model adds them: a column of the result.
constexpr int kTensorDepth = 16, kTensorRows = 16;
using TensorRows = float[kTensorDepth][kTensorRows];
void add_products(const TensorRows& a, const float (&b)[kTensorDepth], float (&sums)[kTensorRows]);

}  // namespace specdec::emulation
