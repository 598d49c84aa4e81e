#include "common/checkpoint/checkpoint.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "common/base/error.h"
#include "common/base/json.h"
#include "common/checkpoint/elements.h"
#include "common/checkpoint/grouped_tensor.h"
#include "common/checkpoint/other_folders.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;
using Shape = std::vector<std::int64_t>;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

LlamaConfig read_config(const fs::path& directory) {
  refuse_other_folders(directory);
  if (!fs::is_directory(directory)) {
    fail("{}: no such directory; a checkpoint is a directory with config.json and weights",
         directory.string());
  }
  const fs::path path = directory / "config.json";
  LlamaConfig config = parse_llama_config(read_text_file(path), path.string());
  const fs::path generation = directory / "generation_config.json";
  if (fs::exists(generation)) {
    std::vector<TokenId> ids = parse_generation_eos_ids(read_text_file(generation),
                                                        generation.string(), config.vocab_size);
    if (!ids.empty()) config.eos_ids = std::move(ids);
  }
  return config;
}

// Which file holds which tensor, according to the index.
using WeightMap = std::map<std::string, std::string>;

WeightMap read_index(const fs::path& path) {
  const Json root = parse_json(read_text_file(path), path.string());
  const JsonObject index(root, path.string());
  if (!index.object("weight_map")) index.fail_missing("weight_map");
  WeightMap result;
  for (const auto& [tensor, file] : index.find("weight_map")->items()) {
    if (!file.is_string()) index.object("weight_map")->fail_type(tensor, "a file name");
    const fs::path name = file.get<std::string>();
    const bool has_nul =
        name.native().find('\0') != std::string::npos;  // the system would cut the name there
    if (name.empty() || has_nul || name != name.filename() || name == "..") {
      fail("{}: tensor {}: {} is no plain file name; shards lie beside their index", path.string(),
           tensor, excerpt(file));
    }
    result[tensor] = name;
  }
  return result;
}

// The tensors in all files of a checkpoint. It notes which of them were taken.
class TensorSource {
 public:
  TensorSource(const fs::path& directory, std::vector<SafetensorsFile>& files)
      : directory_(directory), files_(files) {
    if (fs::exists(directory / kSingleFile)) {
      files_.emplace_back(directory / kSingleFile);
      for (const TensorEntry& tensor : files_[0].header().tensors) file_of_[tensor.name] = 0;
    } else if (fs::exists(directory / kIndexFile)) {
      open_shards(directory);
    } else {
      fail("{}: has neither {} nor {}; other weight formats must be converted first",
           directory.string(), kSingleFile, kIndexFile);
    }
    refuse_quantised();
  }

  std::string directory() const { return directory_.string(); }
  bool contains(const std::string& name) const { return file_of_.contains(name); }
  bool contains_matrix(const std::string& name) const {
    return contains(name) || std::ranges::any_of(grouped_names(name), [&](const std::string& one) {
             return contains(one);
           });
  }

  // The tensor of that name and shape, in a type that we compute with; Error otherwise. A matrix
  // may be there in groups.
  TensorView take(const std::string& name, const Shape& shape) {
    const std::string stored = stored_name(name, shape.size() == 2);
    const SafetensorsFile& file = files_[file_of_.at(stored)];
    taken_.insert(stored);
    if (stored != name) return grouped_tensor(file, stored, shape);
    TensorView view = file.tensor(name);
    if (view.shape != shape) {
      fail("{}: tensor {} has the shape [{}]; config.json makes it [{}]", file.name(), name,
           fmt::join(view.shape, ", "), fmt::join(shape, ", "));
    }
    if (view.dtype != DType::kBF16 && view.dtype != DType::kF16 && view.dtype != DType::kF32) {
      fail("{}: tensor {} is of type {}; supported are BF16, F16 and F32", file.name(), name,
           dtype_name(view.dtype));
    }
    return view;
  }

  // Refuses tensors that the Llama architecture does not have. A model that has such a tensor uses
  // it, so without it we would compute something else.
  void refuse_leftovers() const {
    for (const auto& [name, file] : file_of_) {
      if (taken_.contains(name) || is_harmless(name)) continue;
      fail("{}: tensor {} belongs to no Llama model as we compute it", files_[file].name(), name);
    }
  }

 private:
  // The tensor's name in the files.
  std::string stored_name(const std::string& name, bool is_matrix) const {
    std::vector<std::string> found;
    std::vector<std::string> possible =
        is_matrix ? grouped_names(name) : std::vector<std::string>();
    possible.push_back(name);
    std::ranges::copy_if(possible, std::back_inserter(found),
                         [&](const std::string& one) { return contains(one); });
    if (found.empty()) fail("{}: the tensor {} is missing", directory_.string(), name);
    if (found.size() > 1) {
      fail("{}: holds {} twice, as {} and as {}", directory_.string(), name, found[0], found[1]);
    }
    return found[0];
  }

  // Quantised weights come with scales, which have other names in each format.
  void refuse_quantised() const {
    for (const auto& [name, file] : file_of_) {
      for (const char* end :
           {".qweight", ".scales", "_scale", "_scale_inv", "_packed", ".absmax", ".SCB"}) {
        if (!name.ends_with(end)) continue;
        fail(
            "{}: tensor {} belongs to quantised weights; use the checkpoint in bf16, f16 or f32 "
            "that they were made from",
            files_[file].name(), name);
      }
    }
  }

  void open_shards(const fs::path& directory) {
    const WeightMap weight_map = read_index(directory / kIndexFile);
    std::map<std::string, std::size_t> opened;
    for (const auto& [tensor, file] : weight_map) {
      const auto [position, is_new] = opened.try_emplace(file, files_.size());
      if (is_new) {
        refuse_dangling_link(directory / file);
        files_.emplace_back(directory / file);
      }
      if (!files_[position->second].contains(tensor)) {
        fail("{}: the tensor {} is missing; {} says that it is here",
             files_[position->second].name(), tensor, kIndexFile);
      }
      file_of_[tensor] = position->second;
    }
    if (files_.empty()) fail("{}: names no tensor", (directory / kIndexFile).string());
  }

  // Old checkpoints contain RoPE's frequencies, which follow from the config.
  static bool is_harmless(const std::string& name) {
    return name.starts_with("model.layers.") && name.ends_with(".self_attn.rotary_emb.inv_freq");
  }

  const fs::path& directory_;
  std::vector<SafetensorsFile>& files_;
  std::map<std::string, std::size_t> file_of_;
  std::set<std::string> taken_;
};

// [snippet llama-layer-tensors]
LlamaLayerWeights take_layer(TensorSource& tensors, const LlamaConfig& config, int layer) {
  const std::int64_t d_model = config.d_model;
  const std::int64_t d_ff = config.d_ff;
  const std::int64_t q_rows = std::int64_t{config.n_heads} * config.head_dim;
  const std::int64_t kv_rows = std::int64_t{config.n_kv_heads} * config.head_dim;
  const auto take = [&](const char* name, const Shape& shape) {
    return tensors.take(fmt::format("model.layers.{}.{}.weight", layer, name), shape);
  };
  return {
      .attn_norm = take("input_layernorm", {d_model}),
      .q_proj = take("self_attn.q_proj", {q_rows, d_model}),
      .k_proj = take("self_attn.k_proj", {kv_rows, d_model}),
      .v_proj = take("self_attn.v_proj", {kv_rows, d_model}),
      .o_proj = take("self_attn.o_proj", {d_model, q_rows}),
      .mlp_norm = take("post_attention_layernorm", {d_model}),
      .gate_proj = take("mlp.gate_proj", {d_ff, d_model}),
      .up_proj = take("mlp.up_proj", {d_ff, d_model}),
      .down_proj = take("mlp.down_proj", {d_model, d_ff}),
  };
}
// [end snippet llama-layer-tensors]

bool same_numbers(const TensorView& a, const TensorView& b) {
  if (a.dtype == b.dtype) return std::ranges::equal(a.bytes, b.bytes);
  for (std::int64_t i = 0; i < a.elements(); ++i) {
    if (tensor_element(a, i) != tensor_element(b, i)) return false;
  }
  return true;
}

// A tied head is the embedding. If a head is stored all the same, it must have the same numbers, in
// whatever type: transformers would compute with the stored head, although config.json says that
// it is tied.
TensorView take_head(TensorSource& tensors, const LlamaConfig& config,
                     const TensorView& embedding) {
  const char* name = "lm_head.weight";
  if (config.tied_head && !tensors.contains_matrix(name)) return embedding;
  const TensorView head = tensors.take(name, {config.vocab_size, config.d_model});
  if (!config.tied_head) return head;
  if (!same_numbers(head, embedding)) {
    fail(
        "{}: config.json says that the head is tied to the embedding, but a different {} is "
        "stored; set tie_word_embeddings to what is right",
        tensors.directory(), name);
  }
  return embedding;
}

// Matrices that read the same input are stacked, so they have one type.
void require_one_type(const TensorSource& tensors, int layer,
                      std::initializer_list<const TensorView*> matrices) {
  const DType first = (*matrices.begin())->dtype;
  for (const TensorView* matrix : matrices) {
    if (matrix->dtype == first) continue;
    fail("{}: layer {} has weights of type {} beside {}; {} must be of one type",
         tensors.directory(), layer, dtype_name(first), dtype_name(matrix->dtype),
         matrices.size() == 3 ? "q_proj, k_proj and v_proj" : "gate_proj and up_proj");
  }
}

LlamaWeights take_weights(TensorSource& tensors, const LlamaConfig& config) {
  const Shape table{config.vocab_size, config.d_model};
  LlamaWeights weights;
  weights.embedding = tensors.take("model.embed_tokens.weight", table);
  for (int layer = 0; layer < config.n_layers; ++layer) {
    weights.layers.push_back(take_layer(tensors, config, layer));
    const LlamaLayerWeights& taken = weights.layers.back();
    require_one_type(tensors, layer, {&taken.q_proj, &taken.k_proj, &taken.v_proj});
    require_one_type(tensors, layer, {&taken.gate_proj, &taken.up_proj});
  }
  weights.final_norm = tensors.take("model.norm.weight", {config.d_model});
  weights.head = take_head(tensors, config, weights.embedding);
  tensors.refuse_leftovers();
  return weights;
}

}  // namespace

Checkpoint::Checkpoint(const std::filesystem::path& directory)
    : directory_(directory), config_(read_config(directory)) {
  TensorSource tensors(directory_, files_);
  weights_ = take_weights(tensors, config_);
}

const TensorView& Checkpoint::view(WeightKind kind, int layer) const {
  const LlamaLayerWeights& of_layer = weights_.layers[std::max(layer, 0)];
  switch (kind) {
    case WeightKind::kEmbedding:
      return weights_.embedding;
    case WeightKind::kAttnNorm:
      return of_layer.attn_norm;
    case WeightKind::kQProj:
      return of_layer.q_proj;
    case WeightKind::kKProj:
      return of_layer.k_proj;
    case WeightKind::kVProj:
      return of_layer.v_proj;
    case WeightKind::kOProj:
      return of_layer.o_proj;
    case WeightKind::kMlpNorm:
      return of_layer.mlp_norm;
    case WeightKind::kGateProj:
      return of_layer.gate_proj;
    case WeightKind::kUpProj:
      return of_layer.up_proj;
    case WeightKind::kDownProj:
      return of_layer.down_proj;
    case WeightKind::kFinalNorm:
      return weights_.final_norm;
    default:
      return weights_.head;
  }
}

bool Checkpoint::has_groups() const {
  return std::ranges::any_of(files_, [](const SafetensorsFile& file) {
    return std::ranges::any_of(file.header().tensors, [](const TensorEntry& tensor) {
      return grouped_type(tensor.name).has_value();
    });
  });
}

Weight Checkpoint::weight(WeightKind kind, int layer) const {
  const TensorView& tensor = view(kind, layer);
  return {tensor, nullptr, ReadOnce(tensor.bytes)};
}

}  // namespace specdec
