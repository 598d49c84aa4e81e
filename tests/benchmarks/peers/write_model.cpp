// Writes a checkpoint of a model that is embedded in a larger shape, for programs that cannot
// inflate it themselves.
//
//   write_model BASE_DIR SHAPE|none stored|f32 OUT_DIR
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/base/json_value.h"
#include "common/base/mapped_file.h"
#include "common/base/output_file.h"
#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/elements.h"
#include "common/checkpoint/safetensors_writer.h"
#include "common/inflation/inflated_config.h"
#include "common/inflation/inflated_weights.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

constexpr std::pair<WeightKind, const char*> kOfALayer[] = {
    {WeightKind::kAttnNorm, "input_layernorm"}, {WeightKind::kQProj, "self_attn.q_proj"},
    {WeightKind::kKProj, "self_attn.k_proj"},   {WeightKind::kVProj, "self_attn.v_proj"},
    {WeightKind::kOProj, "self_attn.o_proj"},   {WeightKind::kMlpNorm, "post_attention_layernorm"},
    {WeightKind::kGateProj, "mlp.gate_proj"},   {WeightKind::kUpProj, "mlp.up_proj"},
    {WeightKind::kDownProj, "mlp.down_proj"},
};

// Tensors with the memory that they need.
class Tensors {
 public:
  explicit Tensors(bool float32) : float32_(float32) {}

  void add(const std::string& name, Weight weight) {
    TensorView view = weight.view;
    if (view.shape.size() == 2 && view.shape[0] == 1) view.shape.erase(view.shape.begin());  // norm
    if (float32_ && view.dtype != DType::kF32) {
      wide_.push_back(to_float32(view));
      view.dtype = DType::kF32;
      view.bytes = std::as_bytes(std::span(wide_.back()));
    } else {
      kept_.push_back(std::move(weight));
    }
    named_.push_back({name, view});
  }
  const std::vector<NamedTensor>& named() const { return named_; }

 private:
  bool float32_;
  std::vector<Weight> kept_;
  std::vector<std::vector<float>> wide_;
  std::vector<NamedTensor> named_;
};

Tensors tensors_of(const WeightSource& source, bool float32) {
  Tensors tensors(float32);
  const LlamaConfig& config = source.config();
  tensors.add("model.embed_tokens.weight", source.weight(WeightKind::kEmbedding, -1));
  for (int layer = 0; layer < config.n_layers; layer++) {
    for (const auto& [kind, name] : kOfALayer) {
      tensors.add(fmt::format("model.layers.{}.{}.weight", layer, name),
                  source.weight(kind, layer));
    }
  }
  tensors.add("model.norm.weight", source.weight(WeightKind::kFinalNorm, -1));
  if (!config.tied_head) tensors.add("lm_head.weight", source.weight(WeightKind::kHead, -1));
  return tensors;
}

void write(const fs::path& base_directory, const std::string& shape, bool float32,
           const fs::path& out) {
  const Checkpoint base(base_directory);
  const LlamaConfig config =
      shape == "none" ? base.config() : inflated_config(base.config(), shape, "write_model");
  fs::create_directories(out);
  write_safetensors(out / "model.safetensors",
                    tensors_of(InflatedWeights(base, config, 0), float32).named());
  auto json = Json::parse(read_text_file(base_directory / "config.json"));
  json.update({{"hidden_size", config.d_model},
               {"intermediate_size", config.d_ff},
               {"num_hidden_layers", config.n_layers},
               {"num_attention_heads", config.n_heads},
               {"num_key_value_heads", config.n_kv_heads},
               {"vocab_size", config.vocab_size},
               {"rms_norm_eps", config.rms_norm_eps},
               {"torch_dtype", float32 ? "float32" : json.at("torch_dtype").get<std::string>()}});
  OutputFile file(out / "config.json");  // the last file: a checkpoint that has it is whole
  file.write(json.dump(1) + "\n");
  file.commit();
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  const std::string type = argc == 5 ? argv[3] : "";
  if (type != "stored" && type != "f32") {
    std::fprintf(stderr, "usage: %s BASE_DIR SHAPE|none stored|f32 OUT_DIR\n", argv[0]);
    return 2;
  }
  try {
    specdec::write(argv[1], argv[2], type == "f32", argv[4]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "write_model: %s\n", error.what());
    return 2;
  }
}
