#pragma once
#include "kernels/emulation/scheduler.h"

// Tensor cores: mma.sync.m16n8k16 with operands of bf16 and sums of float32.
//
// NVIDIA does not document how they add. Experiments (Fasi, Higham, Mikaitis and Pranesh, 2021; Li
// et al., 2024) found that products are exact, and that a number of them and the sum so far are
// added at a time. Each term is truncated, not rounded, at the last bit of the largest term as a
// float32, or a few bits below it; so is the result. The emulation does the same; by default it
// keeps no bits below the last one. The number of products added at a time differs between GPUs, so
// tests try several.
namespace specdec::emulation {

struct TensorCoreModel {
  int block = 8;       // products added at a time: 4, 8 or 16
  int extra_bits = 0;  // kept of each term below the last bit of the largest
};
TensorCoreModel& tensor_core_model();

// total += A B[0], then A B[1], ..., for `parts` matrices B. a[4], b[parts][2] and total[4] are a
// lane's registers, as in PTX (kernels/cuda/matmul/tensor_core.h).
void multiply_tiles(const unsigned* a, const unsigned* b, int parts, float* total,
                    SPECDEC_CALL_SITE);

// sums[m] += a[k][m] b[k] for all k, by the model's rules: one column of the result.
constexpr int kTensorDepth = 16, kTensorRows = 16;
using TensorRows = float[kTensorDepth][kTensorRows];
void add_products(const TensorRows& a, const float (&b)[kTensorDepth], float (&sums)[kTensorRows],
                  const TensorCoreModel& model = tensor_core_model());

// Collects A, 16 x 16, from the lanes' four registers: lane 4 g + c has [g + 8 (r % 2)]
// [2 c + 8 (r / 2) + j] in half j of register r. Returns whether all of A is finite.
bool gather_rows(const std::array<const unsigned*, kLanes>& registers, TensorRows& a);

}  // namespace specdec::emulation
