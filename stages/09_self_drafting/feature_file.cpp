#include "stages/09_self_drafting/feature_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/base/error.h"
#include "common/base/json_value.h"
#include "common/checkpoint/elements.h"
#include "common/inflation/inflated_weights.h"

namespace specdec {
namespace {

// The shape of the block, whatever the file calls the model that it belongs to.
LlamaConfig shape_of(const HeadFile& file, const LlamaConfig& target) {
  const std::string& name = file.config().name();
  Json llama = file.json();
  llama["model_type"] = "llama";
  llama.erase("architectures");
  LlamaConfig shape = parse_llama_config(llama.dump(), name);
  if (shape.vocab_size != target.vocab_size) {
    fail("{}: vocab_size is {}, and the target's is {}", name, shape.vocab_size, target.vocab_size);
  }
  shape.n_layers = 1;
  return shape;
}

// A block as large as those of the inflated target.
LlamaConfig inflated(const LlamaConfig& layer, const LlamaConfig& target, const LlamaConfig& runs,
                     const std::string& name) {
  LlamaConfig result = layer;
  if (runs.d_model == target.d_model) return result;
  const bool fits = runs.head_dim == layer.head_dim && runs.n_kv_heads >= layer.n_kv_heads &&
                    runs.n_heads / runs.n_kv_heads == layer.n_heads / layer.n_kv_heads &&
                    runs.d_ff >= layer.d_ff;
  if (!fits) {
    fail("{}: this layer cannot be inflated to one of {} heads on {} of {}, and a d_ff of {}", name,
         runs.n_heads, runs.n_kv_heads, runs.head_dim, runs.d_ff);
  }
  result.d_model = runs.d_model;
  result.d_ff = runs.d_ff;
  result.n_heads = runs.n_heads;
  result.n_kv_heads = runs.n_kv_heads;
  result.rms_norm_eps *= double(target.d_model) / runs.d_model;
  return result;
}

// The columns of group `group`, of `width` columns.
std::vector<std::byte> columns_of(const TensorView& all, int group, std::int64_t width) {
  const std::size_t bytes = width * dtype_bits(all.dtype) / 8;
  const std::size_t of_row = all.bytes.size() / all.shape[0];
  std::vector<std::byte> result(all.shape[0] * bytes);
  for (std::int64_t row = 0; row < all.shape[0]; ++row) {
    std::memcpy(result.data() + row * bytes, all.bytes.data() + row * of_row + group * bytes,
                bytes);
  }
  return result;
}

// Each group of columns inflated for itself, and then side by side.
Weight inflated_groups(const TensorView& stored, std::int64_t rows, std::int64_t columns,
                       int groups, int key) {
  const std::int64_t narrow = stored.shape[1] / groups, wide = columns / groups;
  const std::size_t bytes = wide * dtype_bits(stored.dtype) / 8;
  auto memory = std::make_unique<std::byte[]>(rows * groups * bytes);
  for (int group = 0; group < groups; ++group) {
    const auto part = columns_of(stored, group, narrow);
    const Weight made = inflated_matrix({stored.dtype, {stored.shape[0], narrow}, part}, rows, wide,
                                        key * groups + group);
    for (std::int64_t row = 0; row < rows; ++row) {
      std::memcpy(memory.get() + (row * groups + group) * bytes,
                  made.view.bytes.data() + row * bytes, bytes);
    }
  }
  const std::span<const std::byte> all(memory.get(), rows * groups * bytes);
  return {.view = {stored.dtype, {rows, columns}, all}, .memory = std::move(memory)};
}

}  // namespace

FeatureFile::FeatureFile(HeadFile& file, const WeightSource& target, const LlamaConfig& runs,
                         Backend& backend)
    : file_(file),
      source_(target),
      target_(target.config()),
      runs_(runs),
      backend_(backend),
      stored_as_(shape_of(file, target_)),
      runs_as_(inflated(stored_as_, target_, runs, file.name())) {}

DeviceArray<float> FeatureFile::upload(std::vector<float> values) const {
  values.resize(width().runs);
  DeviceArray<float> array(backend_, values.size());
  backend_.upload(values.data(), array.data(), values.size() * sizeof(float));
  return array;
}

DeviceArray<float> FeatureFile::bias(const std::string& name) const {
  return upload(to_float32(file_.take(name, {width().stored})));
}

DeviceArray<float> FeatureFile::rows(const std::string& name, int groups) const {
  const auto [stored, runs] = width();
  const std::vector<float> given = to_float32(file_.take_row(name, groups * stored));
  std::vector<float> values(std::size_t(groups) * runs);
  for (int group = 0; group < groups; ++group) {
    std::copy_n(given.begin() + group * stored, stored, values.begin() + group * runs);
  }
  DeviceArray<float> array(backend_, values.size());
  backend_.upload(values.data(), array.data(), values.size() * sizeof(float));
  return array;
}

// The mean of squares is over more numbers, of which the new ones are zero.
DeviceArray<float> FeatureFile::norm(const std::string& name) const {
  std::vector<float> weights = to_float32(file_.take(name, {width().stored}));
  const double scale = std::sqrt(double(width().stored) / width().runs);
  const float missing = name.starts_with("mtp.") ? 1 : 0;
  for (float& weight : weights) weight = (weight + missing) * scale;
  return upload(std::move(weights));
}

void FeatureFile::add(Matrices& to, const std::string& name, FeatureSize rows, FeatureSize columns,
                      int groups) const {
  const FeatureSize all = columns * groups;
  const TensorView stored = file_.take(name, {rows.stored, all.stored});
  if (!to.empty() && stored.dtype != to.front().view.dtype) {
    fail("{}: tensor {} is of another type than those beside it", file_.name(), name);
  }
  const bool same = rows.stored == rows.runs && columns.stored == columns.runs;
  to.push_back(
      same ? Weight{.view = stored}
           : inflated_groups(stored, rows.runs, all.runs, groups, static_cast<int>(to.size())));
}

std::unique_ptr<const WeightMatrix> FeatureFile::load(const Matrices& matrices) const {
  std::vector<HostMatrix> parts;
  for (const Weight& weight : matrices) parts.push_back(host_matrix(weight.view));
  return backend_.load_matrix(parts);
}

std::unique_ptr<const WeightMatrix> FeatureFile::matrix(const std::string& name, FeatureSize rows,
                                                        FeatureSize columns, int groups) const {
  Matrices one;
  add(one, name, rows, columns, groups);
  return load(one);
}

// What is random in an inflated matrix must read zeros, and an embedding reads nothing.
std::unique_ptr<const WeightMatrix> FeatureFile::own_embedding(const std::string& name) const {
  if (file_.contains(name) && width().stored != width().runs) {
    fail("{}: {} cannot be inflated; without it, the layer uses the target's", file_.name(), name);
  }
  return file_.contains(name) ? matrix(name, vocabulary(), width()) : nullptr;
}

LlamaLayer FeatureFile::llama_layer(const std::string& prefix, int groups) const {
  const LlamaConfig &s = stored_as_, &r = runs_as_;
  const FeatureSize q{s.n_heads * s.head_dim, r.n_heads * r.head_dim},
      kv{s.n_kv_heads * s.head_dim, r.n_kv_heads * r.head_dim}, ff{s.d_ff, r.d_ff};
  Matrices qkv, gate_up;
  add(qkv, prefix + "self_attn.q_proj.weight", q, width(), groups);
  add(qkv, prefix + "self_attn.k_proj.weight", kv, width(), groups);
  add(qkv, prefix + "self_attn.v_proj.weight", kv, width(), groups);
  add(gate_up, prefix + "mlp.gate_proj.weight", ff, width());
  add(gate_up, prefix + "mlp.up_proj.weight", ff, width());
  LlamaLayer layer;
  layer.qkv = load(qkv);
  layer.o_proj = matrix(prefix + "self_attn.o_proj.weight", width(), q);
  layer.mlp_norm = norm(prefix + "post_attention_layernorm.weight");
  layer.gate_up = load(gate_up);
  layer.down_proj = matrix(prefix + "mlp.down_proj.weight", width(), ff);
  return layer;
}

LlamaLayer FeatureFile::normed_layer(const std::string& prefix) const {
  LlamaLayer layer = llama_layer(prefix);
  layer.attn_norm = norm(prefix + "input_layernorm.weight");
  return layer;
}

std::unique_ptr<const LlamaModel> FeatureFile::model(std::vector<LlamaLayer> layers) const {
  LlamaConfig config = runs_as_;
  config.n_layers = static_cast<int>(layers.size());
  return std::make_unique<LlamaModel>(config, std::move(layers), backend_);
}

}  // namespace specdec
