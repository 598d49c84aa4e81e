#pragma once
#include <optional>
#include <vector>

#include "common/checkpoint/llama_config.h"

namespace specdec {

// RoPE's inverse frequencies [head_dim / 2]: the angle, in radians, by which pair i turns at
// position 1; at position t it turns by float32(t) x float32(frequency). theta^(-2 i / head_dim)
// (Su et al., RoFormer, section 3.2.2), stretched by llama3's scaling where the model has one.
//
// Equal to transformers bit for bit, which takes float32 steps in this order: one unit in the last
// place of a frequency is an error of 2e-5 radians at position 400 already.
// REQUIRES: head_dim is even, theta > 0.
std::vector<float> rope_frequencies(int head_dim, double theta,
                                    const std::optional<RopeScaling>& scaling);

}  // namespace specdec
