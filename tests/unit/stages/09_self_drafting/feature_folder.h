#pragma once
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json_value.h"
#include "common/checkpoint/safetensors_writer.h"
#include "common/llama_model.h"
#include "stages/09_self_drafting/feature_layer.h"
#include "tests/test_support.h"
#include "tests/unit/stages/09_self_drafting/head_only.h"

namespace specdec {

// A random feature layer in one of the published layouts, to be changed and written. Its row is
// about the target's, so that it says about what the target said last, and where a text repeats
// itself, some drafts are right.
class FeatureFolder {
 public:
  struct Tensor {
    DType type = DType::kF32;
    std::vector<std::int64_t> shape;
    std::vector<std::byte> bytes;

    std::vector<float> floats() const {
      std::vector<float> values(bytes.size() / sizeof(float));
      std::memcpy(values.data(), bytes.data(), bytes.size());
      return values;
    }
  };

  // layout: "EAGLE", "EAGLE-3", "P-EAGLE", "MTP", or "MTP-3", which has three modules.
  FeatureFolder(std::string_view layout, const LlamaConfig& target) : target_(target) {
    config = {{"architectures", {"Some"}},
              {"hidden_size", target.d_model},
              {"intermediate_size", kWide},
              {"num_hidden_layers", 1},
              {"num_attention_heads", kHeads},
              {"num_key_value_heads", 1},
              {"head_dim", kHeadDim},
              {"vocab_size", target.vocab_size},
              {"max_position_embeddings", 1024},
              {"rms_norm_eps", 1e-5},
              {"rope_theta", 10000.0}};
    if (layout == "EAGLE") {
      make_eagle();
    } else if (layout == "EAGLE-3" || layout == "P-EAGLE") {
      make_eagle3();
      if (layout == "P-EAGLE") make_masks();
    } else {
      make_mtp(layout == "MTP-3" ? 3 : 1);
    }
  }

  void write(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "config.json") << config.dump();
    std::vector<NamedTensor> named;
    for (const auto& [name, tensor] : tensors) {
      named.push_back({name, {tensor.type, tensor.shape, tensor.bytes}});
    }
    write_safetensors(folder / "model.safetensors", named);
  }
  // For a target of this head; null: a random one.
  std::vector<FeatureLayer> load_all(Backend& backend, const WeightSource* head = nullptr) const {
    const TemporaryDirectory folder;
    write(folder.path());
    const HeadOnly any(target_);
    const WeightSource& target = head != nullptr ? *head : any;
    return load_feature_layers(folder.path(), target, target.config(), backend);
  }
  FeatureLayer load(Backend& backend, const WeightSource* head = nullptr) const {
    return std::move(load_all(backend, head).front());
  }
  void rename(const std::string& from, const std::string& to) {
    tensors[to] = tensors.at(from);
    tensors.erase(from);
  }
  // Random numbers around zero, and `one` where row and column (of the last square) are equal.
  void add(const std::string& name, std::vector<std::int64_t> shape, float spread, float one = 0) {
    const std::int64_t rows = shape[0], width = shape.size() > 1 ? shape[1] : 1;
    std::vector<float> values(std::size_t(rows * width));
    std::normal_distribution<float> normal(0, spread);
    for (std::int64_t i = 0; i < rows; i++) {
      for (std::int64_t j = 0; j < width; j++) {
        const bool equal = shape.size() == 1 || width - j == rows - i;
        values[std::size_t(i * width + j)] = normal(random_) + (equal ? one : 0);
      }
    }
    put(name, DType::kF32, std::move(shape), values);
  }
  template <typename T>
  void put(const std::string& name, DType type, std::vector<std::int64_t> shape,
           const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    tensors[name] = {type, std::move(shape), {bytes.begin(), bytes.end()}};
  }

  static constexpr int kWide = 48, kHeads = 2, kHeadDim = 16, kHeadRows = 1000, kMask = 7;
  Json config;
  std::map<std::string, Tensor> tensors;

 private:
  void add_block(const std::string& prefix, int reads) {
    const int E = target_.d_model, q = kHeads * kHeadDim;
    add(prefix + "self_attn.q_proj.weight", {q, reads}, 0.1f);
    add(prefix + "self_attn.k_proj.weight", {kHeadDim, reads}, 0.1f);
    add(prefix + "self_attn.v_proj.weight", {kHeadDim, reads}, 0.1f);
    add(prefix + "self_attn.o_proj.weight", {E, q}, 0.05f);
    add(prefix + "post_attention_layernorm.weight", {E}, 0.1f, 1);
    add(prefix + "mlp.gate_proj.weight", {kWide, E}, 0.1f);
    add(prefix + "mlp.up_proj.weight", {kWide, E}, 0.1f);
    add(prefix + "mlp.down_proj.weight", {E, kWide}, 0.05f);
  }
  void make_eagle() {
    const int E = target_.d_model;
    add("fc.weight", {E, 2 * E}, 0.02f, 1);
    add("fc.bias", {E}, 0.1f);
    add_block("layers.0.", E);
  }
  void make_eagle3() {
    const int E = target_.d_model;
    config["draft_vocab_size"] = kHeadRows;
    config["eagle_config"] = {{"eagle_aux_hidden_state_layer_ids", {0, 1, 1}}};
    add("fc.weight", {E, 3 * E}, 0.02f, 1);
    add("midlayer.input_layernorm.weight", {E}, 0.1f, 1);
    add("midlayer.hidden_norm.weight", {E}, 0.1f, 1);
    add_block("midlayer.", 2 * E);
    add("norm.weight", {E}, 0.1f, 1);
    add("lm_head.weight", {kHeadRows, E}, 0.1f);
    std::vector<std::int64_t> offsets;
    std::vector<std::uint8_t> known(std::size_t(target_.vocab_size));
    for (int i = 0; i < kHeadRows; i++) {  // the tokens 1, 4, 7, ...
      offsets.push_back(2 * i + 1);
      known[std::size_t(3 * i + 1)] = 1;
    }
    put("d2t", DType::kI64, {kHeadRows}, offsets);
    put("t2d", DType::kBool, {target_.vocab_size}, known);
  }
  // A second block, too, as published layers have several.
  void make_masks() {
    const int E = target_.d_model;
    config["num_hidden_layers"] = 2;
    config["pard_token"] = kMask;
    add("layers.1.input_layernorm.weight", {E}, 0.1f, 1);
    add_block("layers.1.", E);
    add("mask_hidden", {1, 3 * E}, 0.5f);
  }
  void make_mtp(int modules) {
    const int E = target_.d_model;
    config["num_nextn_predict_layers"] = modules;
    for (int i = 0; i < modules; i++) {
      const std::string prefix = "model.layers." + std::to_string(target_.n_layers + i) + ".";
      add(prefix + "enorm.weight", {E}, 0.1f, 1);
      add(prefix + "hnorm.weight", {E}, 0.1f, 1);
      add(prefix + "eh_proj.weight", {E, 2 * E}, 0.02f, 1);
      add(prefix + "input_layernorm.weight", {E}, 0.1f, 1);
      add_block(prefix, E);
      add(prefix + "shared_head.norm.weight", {E}, 0.1f, 1);
    }
  }

  LlamaConfig target_;
  std::mt19937 random_{7};
};

}  // namespace specdec
