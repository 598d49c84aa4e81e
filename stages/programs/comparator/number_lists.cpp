#include "stages/programs/comparator/number_lists.h"

#include <cstring>
#include <optional>

#include "common/base/error.h"
#include "common/base/json_value.h"
#include "stages/programs/comparator/matrix.h"

namespace specdec {
namespace {

std::vector<TokenId> checked(std::vector<TokenId> tokens, int vocab_size, const std::string& name,
                             const std::string& key) {
  if (tokens.empty()) fail("{}: {} is empty", name, key);
  for (const TokenId token : tokens) {
    if (token < 0 || token >= vocab_size) {
      fail("{}: {} has the token {}; the vocabulary ends at {}", name, key, token, vocab_size - 1);
    }
  }
  return tokens;
}

}  // namespace

std::vector<TokenId> read_tokens(const JsonObject& fields, const std::string& key, int vocab_size) {
  return checked(read_integers(fields, key), vocab_size, fields.name(), key);
}

std::vector<TokenId> read_tokens(const SafetensorsFile& file, const std::string& name,
                                 int vocab_size) {
  return checked(read_integers(file, name), vocab_size, file.name(), name);
}

std::vector<double> read_numbers(const JsonObject& fields, const std::string& key) {
  std::vector<double> numbers;
  for (const Json& entry : fields.required_list(key)) {
    if (!entry.is_number()) fields.fail_type(key, "a list of numbers");
    numbers.push_back(entry.get<double>());
  }
  return numbers;
}

std::vector<std::int32_t> read_integers(const JsonObject& fields, const std::string& key) {
  std::vector<std::int32_t> integers;
  for (const Json& entry : fields.required_list(key)) {
    const std::optional<int> integer = as_int(entry);
    if (!integer) fields.fail_type(key, "a list of integers");
    integers.push_back(*integer);
  }
  return integers;
}

std::vector<std::int32_t> read_integers(const SafetensorsFile& file, const std::string& name) {
  const TensorView view = file.tensor(name);
  if (view.dtype != DType::kI32 || view.shape.size() != 1 || view.shape[0] == 0) {
    fail("{}: {} must be a list of I32, not empty", file.name(), name);
  }
  std::vector<std::int32_t> integers(view.shape[0]);
  std::memcpy(integers.data(), view.bytes.data(), view.bytes.size());
  return integers;
}

std::vector<double> read_numbers(const SafetensorsFile& file, const std::string& name) {
  const TensorView view = file.tensor(name);
  if (view.dtype != DType::kF32 || view.shape.size() != 1) {
    fail("{}: {} must be a list of F32", file.name(), name);
  }
  return to_matrix(view).values;
}

}  // namespace specdec
