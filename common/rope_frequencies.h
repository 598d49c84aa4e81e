#pragma once
#include <optional>
#include <vector>

#include "common/checkpoint/llama_config.h"

namespace specdec {

// RoPE's inverse frequencies [head_dim / 2]: the angle, in radians, by which pair i turns at
// position 1. At position t it turns by float32(t) x float32(frequency). The frequency is
// theta^(-2 i / head_dim) (Su et al., RoFormer, section 3.2.2), stretched if the model has llama3's
// scaling.
//
// Equal to transformers bit for bit, which takes float32 steps in this order. One unit in the last
// place of a frequency is already an error of 2e-5 radians at position 400.
// REQUIRES: head_dim is even, theta > 0.
std::vector<float> rope_frequencies(int head_dim, double theta,
                                    const std::optional<RopeScaling>& scaling);

}  // namespace specdec
