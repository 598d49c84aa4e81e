#pragma once
#include <string>

#include "common/checkpoint/llama_config.h"

namespace specdec {

// "3b, 1b, ...": the shapes that have a name.
std::string named_shapes();

// The config of a model that is inflated to a larger shape (inflated_weights.h): the sizes of the
// shape, and everything else (RoPE, context, eos ids, a tied head) from the base.
//
// shape: 3b or 1b (Llama 3.2's), 1.7b (the cost of SmolLM2's), 360m (SmolLM2's), 134m or 14m, or
// the path of a config.json or of its directory.
// option: the name of the option in messages.
// Throws Error, with both numbers, if the shape cannot hold the base: every size must be at least
// the base's; head_dim, heads per key-value head, RoPE and tying must be equal.
LlamaConfig inflated_config(const LlamaConfig& base, const std::string& shape,
                            const std::string& option);

}  // namespace specdec
