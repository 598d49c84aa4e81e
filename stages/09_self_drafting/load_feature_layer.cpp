#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/base/error.h"
#include "stages/09_self_drafting/feature_file.h"
#include "stages/09_self_drafting/feature_layer.h"

namespace specdec {
namespace {

constexpr const char* kIds = "eagle_aux_hidden_state_layer_ids";
using Layers = std::vector<FeatureLayer>;

constexpr int kMostPlaces = 4;  // of the residual stream that a pass hands out

std::unique_ptr<const LlamaModel> one_block(const FeatureFile& from, LlamaLayer block) {
  std::vector<LlamaLayer> blocks;
  blocks.push_back(std::move(block));
  return from.model(std::move(blocks));
}

// ---- EAGLE

FeatureLayer load_eagle(const FeatureFile& from) {
  FeatureLayer layer;
  layer.switches = kFeatureLayers[0];
  layer.places = {Outputs::kAfterNorm};
  layer.fc = from.matrix("fc.weight", from.width(), from.width(), 2);
  if (from.config().boolean("bias").value_or(true)) {
    if (!from.file().contains("fc.bias")) {
      fail("{}: the tensor fc.bias is missing; the layer has none only if {} says \"bias\": false",
           from.file().name(), from.config().name());
    }
    layer.fc_bias = from.bias("fc.bias");
  } else if (from.file().contains("fc.bias")) {
    fail("{}: has the tensor fc.bias, but {} says \"bias\": false", from.file().name(),
         from.config().name());
  }
  layer.block = one_block(from, from.llama_layer("layers.0."));
  layer.embedding = from.own_embedding("embed_tokens.weight");
  layer.head = from.head("lm_head.weight");
  return layer;
}

// ---- EAGLE-3

// Which blocks' outputs the layer reads. The configuration counts them from 0.
std::vector<int> places_of(const FeatureFile& from) {
  const int L = from.target().n_layers;
  const auto nested = from.config().object("eagle_config");
  if (!nested || !nested->has(kIds)) {
    if (L < 6)
      fail("{}: {} is missing; the target has only {} blocks", from.config().name(), kIds, L);
    return {2, L / 2, L - 3};
  }
  std::vector<int> places;
  for (const Json& entry : nested->required_list(kIds)) {
    const std::optional<int> id = as_int(entry);
    if (!id || *id < 0 || *id >= L) {
      fail("{}: {}: {} is none of the target's blocks, 0 to {}", from.config().name(), kIds,
           excerpt(entry), L - 1);
    }
    places.push_back(*id + 1);
  }
  if (places.empty() || int(places.size()) > kMostPlaces) {
    fail("{}: {} has {} entries; it must have 1 to {}", from.config().name(), kIds, places.size(),
         kMostPlaces);
  }
  return places;
}

// Only the first block reads embeddings.
std::unique_ptr<const LlamaModel> blocks_of(const FeatureFile& from, const std::string& first) {
  std::vector<LlamaLayer> blocks;
  blocks.push_back(from.llama_layer(first, 2));
  for (int i = 1; i < from.file().size_of("num_hidden_layers"); ++i) {
    blocks.push_back(from.normed_layer(fmt::format("layers.{}.", i)));
  }
  return from.model(std::move(blocks));
}

// What drafts in one pass have instead of the target's rows (P-EAGLE). It enters like these.
void load_mask(const FeatureFile& from, FeatureLayer& layer) {
  const int n = layer.switches.rows, E = from.width().runs;
  layer.mask = mask_token(from.config(), from.vocabulary().stored);
  const DeviceArray<float> rows = from.rows("mask_hidden", n);
  layer.mask_feature = DeviceArray<float>(from.backend(), E);
  from.backend().matmul(matrix(rows, 1, n * E), *layer.fc, matrix(layer.mask_feature, 1, E));
}

FeatureLayer load_eagle3(const FeatureFile& from) {
  FeatureLayer layer;
  layer.switches = kFeatureLayers[1];
  layer.places = places_of(from);
  const int E = from.target().d_model, n = static_cast<int>(layer.places.size());
  if (const int width = from.file().width("fc.weight"); width != n * E && width % E == 0) {
    fail("{}: fc.weight reads {} rows of the target, but {} means {}: {}", from.file().name(),
         width / E, from.config().name(), n, kIds);
  }
  layer.switches.rows = n;
  layer.switches.normed_stream = from.is_true("norm_before_residual");
  layer.switches.feeds_normed = from.is_true("norm_output");
  layer.fc = from.matrix("fc.weight", from.width(), from.width(), n);
  const std::string prefix =
      from.file().contains("midlayer.hidden_norm.weight") ? "midlayer." : "layers.0.";
  layer.embedding_norm = from.norm(prefix + "input_layernorm.weight");
  layer.feature_norm = from.norm(prefix + "hidden_norm.weight");
  layer.block = blocks_of(from, prefix);
  layer.head_norm = from.norm("norm.weight");
  layer.head = from.head("lm_head.weight");
  layer.embedding = from.own_embedding("embed_tokens.weight");
  if (from.file().contains("mask_hidden") || from.is_true("parallel_drafting")) {
    load_mask(from, layer);
  }
  return layer;
}

// ---- MTP

// What its tensors are called.
struct MtpNames {
  std::string embedding_norm, feature_norm, fc, block, head_norm, embedding, head;
};

// layer: counted on from the target's.
MtpNames of_deepseek(int layer) {
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  return {prefix + "enorm.weight",
          prefix + "hnorm.weight",
          prefix + "eh_proj.weight",
          prefix,
          prefix + "shared_head.norm.weight",
          prefix + "embed_tokens.weight",
          prefix + "shared_head.head.weight"};
}

// Modules have all but their blocks in common.
MtpNames of_qwen(int module) {
  return {"mtp.pre_fc_norm_embedding.weight",
          "mtp.pre_fc_norm_hidden.weight",
          "mtp.fc.weight",
          fmt::format("mtp.layers.{}.", module),
          "mtp.norm.weight",
          "mtp.embed_tokens.weight",
          "mtp.lm_head.weight"};
}

FeatureLayer load_mtp(const FeatureFile& from, const MtpNames& names) {
  FeatureLayer layer;
  layer.switches = kFeatureLayers[2];
  FeatureSwitches& is = layer.switches;
  is.after_norm = from.config().boolean("target_hidden_post_norm").value_or(true);
  is.feeds_normed = from.is_true("chain_hidden_post_norm");
  is.feature_first = from.is_true("mtp_hidden_states_first");
  layer.places = {is.after_norm ? Outputs::kAfterNorm : from.target().n_layers};
  layer.embedding_norm = from.norm(names.embedding_norm);
  layer.feature_norm = from.norm(names.feature_norm);
  layer.fc = from.matrix(names.fc, from.width(), from.width(), 2);
  layer.block = one_block(from, from.normed_layer(names.block));
  layer.head_norm = from.norm(names.head_norm);
  layer.embedding = from.own_embedding(names.embedding);
  layer.head = from.head(names.head);
  return layer;
}

// As many as the configuration's `count` says. names: of a module's tensors.
template <typename Names>
Layers load_modules(const FeatureFile& from, const char* count, const Names& names) {
  Layers layers;
  for (int i = 0; i < from.file().size_of(count); ++i) layers.push_back(load_mtp(from, names(i)));
  return layers;
}

Layers load_mtp_of_deepseek(const FeatureFile& from) {
  return load_modules(from, "num_nextn_predict_layers",
                      [&](int i) { return of_deepseek(from.target().n_layers + i); });
}

Layers load_mtp_of_qwen(const FeatureFile& from) {
  return load_modules(from, "mtp_num_hidden_layers", of_qwen);
}

template <FeatureLayer (*load)(const FeatureFile&)>
Layers only(const FeatureFile& from) {
  Layers layers;
  layers.push_back(load(from));
  return layers;
}

// The kind that the tensors' names tell.
Layers (*kind_of(const HeadFile& file, const LlamaConfig& target))(const FeatureFile&) {
  const std::string of_mtp = of_deepseek(target.n_layers).fc;
  for (const char* name : {"midlayer.hidden_norm.weight", "layers.0.hidden_norm.weight"}) {
    if (file.contains(name)) return only<load_eagle3>;
  }
  if (file.contains(of_mtp)) return load_mtp_of_deepseek;
  if (file.contains(of_qwen(0).fc)) return load_mtp_of_qwen;
  if (file.contains("fc.weight")) return only<load_eagle>;
  fail(
      "{}: no feature layer for a target of {} blocks: has neither fc.weight (EAGLE, EAGLE-3) nor "
      "{} or mtp.fc.weight (MTP)",
      file.name(), target.n_layers, of_mtp);
}

}  // namespace

std::vector<FeatureLayer> load_feature_layers(const std::filesystem::path& folder,
                                              const WeightSource& target, const LlamaConfig& runs,
                                              Backend& backend) {
  HeadFile file(folder, target.config().d_model);
  const auto load = kind_of(file, target.config());
  Layers layers = load(FeatureFile(file, target, runs, backend));
  file.refuse_leftovers();
  return layers;
}

}  // namespace specdec
