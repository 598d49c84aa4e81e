#pragma once
#include "kernels/ops.h"

namespace specdec {

// Attention of one token over a contiguous cache in host memory. Read it instead of the kernels: it
// has no pages, slots or vectors, and gives the same bits as Backend::attention of the CPU
// backends.
//
//   out = softmax(q K^T / sqrt(D)) V, head by head      (Vaswani et al. 2017, equation 1)
//
// K and V are rows 0 .. position; later rows are not read. `out` overlaps no input.
void plain_contiguous_attention(const float* q,       // [H * D]
                                const float* keys,    // [position + 1, Hkv * D]
                                const float* values,  // [position + 1, Hkv * D]
                                int position, const HeadShape& heads,
                                float* out);  // [H * D]

}  // namespace specdec
