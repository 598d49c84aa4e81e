#pragma once
#include <cstdint>

namespace specdec {

// The number of a row of the embedding matrix. The tokenizer writes token ids, and models read
// them.
using TokenId = std::int32_t;

}  // namespace specdec
