#pragma once
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/base/json_value.h"
#include "common/checkpoint/safetensors_writer.h"
#include "stages/programs/comparator/comparator.h"
#include "tests/checkpoint_builder.h"
#include "tests/unit/stages/programs/comparator/golden_comparator_model.h"

namespace specdec {

// A model in which every known mistake changes the numbers: its sizes all differ, RoPE's scaling
// keeps, blends and slows, and eps is large.
inline Json comparator_config() {
  Json config = tiny_config();
  config.update({{"hidden_size", 48},
                 {"intermediate_size", 40},
                 {"num_hidden_layers", 3},
                 {"num_attention_heads", 6},
                 {"num_key_value_heads", 2},
                 {"head_dim", 8},
                 {"vocab_size", 50},
                 {"rms_norm_eps", 1e-2},
                 {"rope_theta", 50000.0},
                 {"tie_word_embeddings", false},
                 {"rope_scaling",
                  {{"rope_type", "llama3"},
                   {"factor", 8.0},
                   {"low_freq_factor", 1.0},
                   {"high_freq_factor", 4.0},
                   {"original_max_position_embeddings", 256}}}});
  return config;
}

inline void write_comparator_checkpoint(const std::filesystem::path& directory,
                                        const Json& config = comparator_config()) {
  std::mt19937 random(7);
  std::vector<std::vector<float>> values;
  std::vector<NamedTensor> tensors;
  for (const TensorEntry& entry : llama_tensors(config, DType::kF32)) {
    const bool is_norm = entry.shape.size() == 1;
    const auto inputs = static_cast<float>(entry.shape.back());
    std::normal_distribution<float> normal(is_norm ? 1.0F : 0.0F,
                                           is_norm ? 0.3F : 1.5F / std::sqrt(inputs));
    values.emplace_back(tensor_bytes(DType::kF32, entry.shape, entry.name) / sizeof(float));
    for (float& value : values.back()) value = normal(random);
    tensors.push_back({entry.name, {DType::kF32, entry.shape, {}}});
  }
  for (std::size_t i = 0; i < tensors.size(); i++)
    tensors[i].view.bytes = std::as_bytes(std::span(values[i]));
  std::filesystem::create_directories(directory);
  std::ofstream(directory / "config.json") << config;
  write_safetensors(directory / "model.safetensors", tensors);
}

// The tensors that a program computed, as a stage would keep them in memory.
class Dump {
 public:
  template <typename Real>
  explicit Dump(const std::map<std::string, std::vector<std::vector<Real>>>& tensors) {
    for (const auto& [name, rows] : tensors) {
      for (const auto& row : rows) values[name].insert(values[name].end(), row.begin(), row.end());
      height = rows.size();
    }
  }

  std::size_t width(const std::string& name) const { return values.at(name).size() / height; }
  float& at(const std::string& name, std::size_t token, std::size_t index) {
    return values.at(name)[token * width(name) + index];
  }
  std::span<float> row(const std::string& name, std::size_t token) {
    return std::span(values.at(name)).subspan(token * width(name), width(name));
  }
  TensorView view(const std::string& name) const {
    return float_tensor(values.at(name), static_cast<std::int64_t>(height),
                        static_cast<std::int64_t>(width(name)));
  }
  TensorLookup lookup() const {
    return [this](const std::string& name) -> std::optional<TensorView> {
      if (!values.contains(name)) return std::nullopt;
      return view(name);
    };
  }

  std::size_t height = 0;
  std::map<std::string, std::vector<float>> values;
};

// A golden file for the prompt "short", as golden/goldens/README.md describes it.
struct GoldenBuilder {
  GoldenBuilder(const Checkpoint& checkpoint, std::vector<TokenId> prompt, std::size_t stored_rows)
      : tokens(std::move(prompt)), computed(PlantedLlama<double>(checkpoint, "").forward(tokens)) {
    rows.resize(stored_rows);
    std::iota(rows.begin(), rows.end(), static_cast<std::int32_t>(tokens.size() - stored_rows));
    const LlamaConfig& c = checkpoint.config();
    for (const auto& [name, values] : computed.values) {
      manifest["prompts"]["short"]["norms"][name] =
          std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
      manifest["tolerances"][name] = 1e-5;
    }
    manifest["shape"] = {{"d_model", c.d_model},       {"d_ff", c.d_ff},
                         {"vocab_size", c.vocab_size}, {"n_layers", c.n_layers},
                         {"n_heads", c.n_heads},       {"n_kv_heads", c.n_kv_heads},
                         {"head_dim", c.head_dim}};
    manifest["inv_freq"] = PlantedLlama<double>(checkpoint, "").frequencies();
  }

  // `variety`: "", ".float64" or ".cache", which has no `rows`.
  std::filesystem::path write(const std::filesystem::path& directory,
                              const std::string& variety = "") const {
    const auto integers = [](const std::vector<std::int32_t>& list) {
      return TensorView{
          DType::kI32, {static_cast<std::int64_t>(list.size())}, std::as_bytes(std::span(list))};
    };
    std::vector<NamedTensor> tensors{{"token_ids", integers(tokens)}};
    if (variety != ".cache") tensors.push_back({"rows", integers(rows)});
    if (!logits_ids.empty()) tensors.push_back({"logits_ids", integers(logits_ids)});
    const std::vector<float> some = some_logits();
    for (const auto& [name, values] : computed.values) {
      TensorView view = computed.view(name);
      view.shape[0] = static_cast<std::int64_t>(rows.size());
      view.bytes = view.bytes.last(rows.size() * computed.width(name) * sizeof(float));
      if (name == "logits" && !logits_ids.empty()) {
        view.shape[1] = static_cast<std::int64_t>(logits_ids.size());
        view.bytes = std::as_bytes(std::span(some));
      }
      tensors.push_back({name, view});
    }
    std::ofstream(directory / "manifest.json") << manifest;
    const std::filesystem::path path = directory / ("short" + variety + ".safetensors");
    write_safetensors(path, tensors);
    return path;
  }

  // The columns in logits_ids of the stored rows.
  std::vector<float> some_logits() const {
    std::vector<float> some;
    if (logits_ids.empty()) return some;
    const std::vector<float>& all = computed.values.at("logits");
    for (const std::int32_t row : rows) {
      for (const std::int32_t id : logits_ids) {
        some.push_back(all[static_cast<std::size_t>(row) * computed.width("logits") +
                           static_cast<std::size_t>(id)]);
      }
    }
    return some;
  }

  std::vector<TokenId> tokens;
  std::vector<std::int32_t> rows;
  std::vector<std::int32_t> logits_ids;  // the columns of the logits to store; empty: all
  Dump computed;                         // changes before write() go into the golden file
  Json manifest;
};

}  // namespace specdec
