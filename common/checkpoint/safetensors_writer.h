#pragma once
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/checkpoint/safetensors.h"

namespace specdec {

struct NamedTensor {
  std::string name;
  TensorView view;
};

// The start of a file with these tensors (header length and header), byte for byte as the reference
// implementation writes it: sorted by dtype, widest first, then by name, and padded with spaces to
// a multiple of 8 bytes. Reads name, dtype and shape; sorts `tensors` into the order of the data
// and fills in `begin` and `end`. REQUIRES: distinct names.
std::string safetensors_header(std::vector<TensorEntry>& tensors,
                               const std::map<std::string, std::string>& metadata = {});

// Writes a file, whole or not at all. Throws Error when the file cannot be written.
// REQUIRES: distinct names, and as many bytes in each view as its shape needs.
void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace specdec
