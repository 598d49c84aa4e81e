#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/json_value.h"
#include "common/checkpoint/safetensors.h"

namespace specdec {

// The config.json of Llama-3.2-1B-Instruct and -3B-Instruct, field for field.
Json llama_3_2_1b_config();
Json llama_3_2_3b_config();

// A config of a few hundred weights, for tests that change one thing in it.
Json tiny_config();

// The tensors that a checkpoint with this config holds, in Hugging Face's names and shapes, all of
// one type. Written apart from the reader that it tests, from the names of the published files.
std::vector<TensorEntry> llama_tensors(const Json& config, DType dtype = DType::kBF16);

// Writes config.json and model.safetensors with random weights (a fixed sequence, finite in every
// type, streamed in pieces so that the test's own memory stays small).
void write_checkpoint(const std::filesystem::path& directory, const Json& config,
                      std::vector<TensorEntry> tensors);

// Writes a safetensors file of the right size whose data is one hole: it takes no disk space.
// Returns the header's length in bytes, without the 8 bytes of the length itself.
std::uint64_t write_sparse_safetensors(const std::filesystem::path& path,
                                       std::vector<TensorEntry> tensors);

}  // namespace specdec
