#include "stages/programs/comparator/golden_file.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

#include "common/base/error.h"
#include "common/base/json_value.h"
#include "common/base/mapped_file.h"
#include "stages/programs/comparator/matrix.h"
#include "stages/programs/comparator/number_lists.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

GoldenShape read_shape(const JsonObject& manifest) {
  const JsonObject fields = manifest.required_object("shape");
  GoldenShape shape{.d_model = fields.required_integer("d_model"),
                    .d_ff = fields.required_integer("d_ff"),
                    .n_layers = fields.required_integer("n_layers"),
                    .n_heads = fields.required_integer("n_heads"),
                    .n_kv_heads = fields.required_integer("n_kv_heads"),
                    .head_dim = fields.required_integer("head_dim"),
                    .vocab_size = fields.required_integer("vocab_size"),
                    .inv_freq = read_numbers(manifest, "inv_freq")};
  const bool sizes_fit = shape.d_model > 0 && shape.d_ff > 0 && shape.vocab_size > 0;
  const bool heads_fit = shape.n_kv_heads > 0 && shape.n_heads % shape.n_kv_heads == 0 &&
                         shape.head_dim > 0 && shape.head_dim % 2 == 0;
  if (!sizes_fit || !heads_fit || std::ssize(shape.inv_freq) != shape.head_dim / 2) {
    fail("{}: the sizes in shape and inv_freq contradict each other", manifest.name());
  }
  return shape;
}

// The number of elements of a row.
std::int64_t width_of(TensorKind kind, const GoldenShape& shape) {
  switch (kind) {
    case TensorKind::kQ:
    case TensorKind::kQRope:
    case TensorKind::kAttnOut:
      return std::int64_t{shape.n_heads} * shape.head_dim;
    case TensorKind::kK:
    case TensorKind::kKRope:
    case TensorKind::kV:
      return std::int64_t{shape.n_kv_heads} * shape.head_dim;
    case TensorKind::kGate:
    case TensorKind::kUp:
      return shape.d_ff;
    case TensorKind::kLogits:
      return shape.vocab_size;
    default:
      return shape.d_model;
  }
}

}  // namespace

bool GoldenShape::is_of(const LlamaConfig& c) const {
  return std::tie(d_model, d_ff, n_layers, n_heads, n_kv_heads, head_dim, vocab_size) ==
         std::tie(c.d_model, c.d_ff, c.n_layers, c.n_heads, c.n_kv_heads, c.head_dim, c.vocab_size);
}

GoldenFile::GoldenFile(const fs::path& path) : file_(path) {
  const fs::path manifest_path = path.parent_path() / "manifest.json";
  const Json root = parse_json(read_text_file(manifest_path), manifest_path.string());
  const JsonObject manifest(root, manifest_path.string());
  shape_ = read_shape(manifest);
  read_rows();
  if (file_.contains("logits_ids")) {
    logits_ids_ = read_tokens(file_, "logits_ids", shape_.vocab_size);
  }

  const bool is_cache = path.stem().extension() == ".cache";
  const bool is_float64 = path.stem().extension() == ".float64";
  const fs::path prompt = is_cache || is_float64 ? path.stem().stem() : path.stem();
  const JsonObject prompts = manifest.required_object("prompts");
  const JsonObject norms = prompts.required_object(prompt).required_object("norms");
  const JsonObject tolerances = manifest.required_object("tolerances");
  for (const TensorEntry& entry : file_.header().tensors) {
    if (entry.dtype != DType::kI32) read_tensor(entry, tolerances, is_cache ? nullptr : &norms);
  }
  if (tensors_.empty()) fail("{}: holds no golden tensor", name());
  std::ranges::sort(tensors_, {}, &GoldenTensor::place);
}

void GoldenFile::read_rows() {
  tokens_ = read_tokens(file_, "token_ids", shape_.vocab_size);
  if (!file_.contains("rows")) return;  // all of them
  const std::vector<std::int32_t> rows = read_integers(file_, "rows");
  first_row_ = rows[0];
  for (int r = 0; r < std::ssize(rows); ++r) {
    const bool consecutive = rows[r] == first_row_ + r;
    if (first_row_ >= 0 && consecutive && rows.back() + 1 == std::ssize(tokens_)) continue;
    fail("{}: rows must be the last ones of {} tokens", name(), tokens_.size());
  }
}

std::int64_t GoldenFile::stored_width(TensorKind kind) const {
  const bool some = kind == TensorKind::kLogits && !logits_ids_.empty();
  return some ? std::ssize(logits_ids_) : width_of(kind, shape_);
}

void GoldenFile::read_tensor(const TensorEntry& entry, const JsonObject& tolerances,
                             const JsonObject* norms) {
  const std::optional<TensorPlace> place = parse_tensor_name(entry.name);
  if (!place) fail("{}: {} is not the name of a golden tensor", name(), entry.name);
  const std::vector<std::int64_t> want{std::ssize(tokens_) - first_row_, stored_width(place->kind)};
  if (entry.shape != want || (entry.dtype != DType::kF32 && entry.dtype != DType::kF64)) {
    fail("{}: {} must be of type F32 or F64 and of shape [{}]", name(), entry.name,
         fmt::join(want, ", "));
  }
  const GoldenTensor tensor{entry.name, *place, file_.tensor(entry.name),
                            tolerances.required_number(entry.name),
                            norms == nullptr ? 0 : norms->required_number(entry.name)};
  const Matrix values = to_matrix(tensor.view);
  for (std::size_t i = 0; i < values.values.size(); ++i) {
    if (std::isfinite(values.values[i])) continue;
    fail("{}: {} holds {} at row {}, index {}: a golden tensor must be finite; make the file again",
         name(), entry.name, values.values[i], i / values.cols, i % values.cols);
  }
  if (!(tensor.tolerance > 0)) {
    fail("{}: {} is {}; it must be above 0", tolerances.name(), entry.name, tensor.tolerance);
  }
  tensors_.push_back(tensor);
}

const GoldenTensor* GoldenFile::find(const TensorPlace& place) const {
  const auto found = std::ranges::lower_bound(tensors_, place, {}, &GoldenTensor::place);
  return found != tensors_.end() && found->place == place ? &*found : nullptr;
}

}  // namespace specdec
