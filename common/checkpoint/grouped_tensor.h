#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/checkpoint/safetensors.h"

namespace specdec {

// A matrix of groups as a published GGUF file holds it, byte for byte: each row is a list of groups
// of 32 elements. safetensors knows no such type, so the file has a tensor of bytes with GGUF's
// type at the end of its name:
//   NAME.q4_1   U8 [rows, width / 32 * 20]
//   NAME.q8_0   U8 [rows, width / 32 * 34]
// `make real WEIGHTS=kept` writes such files.
// https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h (block_q4_1, block_q8_0)

// The bytes of 32 elements. REQUIRES: is_grouped(dtype).
std::size_t group_bytes(DType dtype);

// The type at the end of a tensor's name, or nullopt.
std::optional<DType> grouped_type(std::string_view tensor_name);

// The names that a matrix of this name has in groups.
std::vector<std::string> grouped_names(const std::string& name);

// The tensor of that name as a matrix of groups of this shape. Throws Error unless it is one.
// REQUIRES: grouped_type(name), two dimensions.
TensorView grouped_tensor(const SafetensorsFile& file, const std::string& name,
                          std::span<const std::int64_t> shape);

}  // namespace specdec
