#pragma once
#include <cstdint>

namespace specdec {

// A row of the embedding matrix: what the tokenizer writes and the models read.
using TokenId = std::int32_t;

}  // namespace specdec
