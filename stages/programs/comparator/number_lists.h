#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/base/token_id.h"
#include "common/checkpoint/safetensors.h"

namespace specdec {

// The lists in golden files and their manifests. All functions throw Error if the list is missing
// or not as their comment says.

std::vector<double> read_numbers(const JsonObject& fields, const std::string& key);
std::vector<std::int32_t> read_integers(const JsonObject& fields, const std::string& key);

// I32, at least one.
std::vector<std::int32_t> read_integers(const SafetensorsFile& file, const std::string& name);

// Token ids of a vocabulary, at least one.
std::vector<TokenId> read_tokens(const JsonObject& fields, const std::string& key, int vocab_size);
std::vector<TokenId> read_tokens(const SafetensorsFile& file, const std::string& name,
                                 int vocab_size);

// F32.
std::vector<double> read_numbers(const SafetensorsFile& file, const std::string& name);

}  // namespace specdec
