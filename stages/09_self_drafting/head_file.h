#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/base/token_id.h"
#include "common/checkpoint/safetensors.h"

namespace specdec {

// A folder of what a target drafts with: config.json and model.safetensors. It notes which tensors
// were taken. All functions throw Error, with the names of what is missing or does not fit. Views
// of tensors live as long as this object.
class HeadFile {
 public:
  // d_model: of the target; 0: any.
  HeadFile(const std::filesystem::path& folder, int d_model);
  HeadFile(const HeadFile&) = delete;
  HeadFile& operator=(const HeadFile&) = delete;

  const JsonObject& config() const { return config_; }
  const Json& json() const { return root_; }  // the same as a value
  int size_of(const char* key) const;         // a number of the configuration, from 1 on

  const std::string& name() const { return file_.name(); }  // of the file with the tensors
  bool contains(const std::string& name) const { return file_.contains(name); }
  int width(const std::string& name) const;  // of a tensor's rows; 0: there is none of this name
  // The tensor of that name and shape, of type BF16, F16 or F32. A matrix X.weight may be of type
  // I8, with a scale for each row, X.weight_scale [rows, 1]: then it is their product, as BF16.
  TensorView take(const std::string& name, const std::vector<std::int64_t>& shape);
  // A tensor of `width` numbers, whether its shape is [width], [1, width] or [1, 1, width].
  TensorView take_row(const std::string& name, int width);
  // As take(), of another type.
  TensorView take(const std::string& name, const std::vector<std::int64_t>& shape, DType type);
  // A tensor that is not used would make something else of the others.
  void refuse_leftovers() const;

 private:
  TensorView take_any(const std::string& name, const std::vector<std::int64_t>& shape);
  std::vector<float> scales_of(const std::string& matrix, std::int64_t rows);
  TensorView dequantised(const std::string& name, const TensorView& matrix);

  Json root_;
  JsonObject config_;
  SafetensorsFile file_;
  std::set<std::string, std::less<>> taken_;
  std::vector<std::vector<std::uint16_t>> made_;  // the numbers of int8 matrices as BF16
};

// The token in place of a missing draft, where a configuration says that all drafts come from
// one pass. Its key: pard_token, ptd_token_id or mask_token_id. Throws Error if there is none, or
// if the vocabulary has no such token.
TokenId mask_token(const JsonObject& config, int vocab_size);

}  // namespace specdec
