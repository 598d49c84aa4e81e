#include "tests/checkpoint_builder.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

#include "common/base/json_value.h"
#include "common/base/output_file.h"
#include "common/checkpoint/safetensors_writer.h"

namespace specdec {
namespace {

Json llama_3_2_config(int d_model, int n_layers, int n_heads, int head_dim) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"attention_bias", false},
          {"attention_dropout", 0.0},
          {"bos_token_id", 128000},
          {"eos_token_id", {128001, 128008, 128009}},
          {"head_dim", head_dim},
          {"hidden_act", "silu"},
          {"hidden_size", d_model},
          {"initializer_range", 0.02},
          {"intermediate_size", 8192},
          {"max_position_embeddings", 131072},
          {"mlp_bias", false},
          {"model_type", "llama"},
          {"num_attention_heads", n_heads},
          {"num_hidden_layers", n_layers},
          {"num_key_value_heads", 8},
          {"pretraining_tp", 1},
          {"rms_norm_eps", 1e-05},
          {"rope_scaling",
           {{"factor", 32.0},
            {"high_freq_factor", 4.0},
            {"low_freq_factor", 1.0},
            {"original_max_position_embeddings", 8192},
            {"rope_type", "llama3"}}},
          {"rope_theta", 500000.0},
          {"tie_word_embeddings", true},
          {"torch_dtype", "bfloat16"},
          {"transformers_version", "4.45.0.dev0"},
          {"use_cache", true},
          {"vocab_size", 128256}};
}

// A cheap generator of bits; its numbers need no quality, only to differ from each other.
class XorShift {
 public:
  std::uint64_t operator()() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }

 private:
  std::uint64_t state_ = 0x9E3779B97F4A7C15;
};

// A byte pair keeps its sign and its lower bits; its exponent is set: between 2^-7 and 2^-5 as bf16
// and as f32, and just over 1 as f16. So it is finite and never subnormal, and neither are the
// weights of a softmax, whose scores would differ by hundreds if these numbers were near 1. Some
// processors take a hundred cycles for each subnormal number, and a benchmark would show nothing
// else.
constexpr std::uint64_t kKept = 0x80FF80FF80FF80FF, kExponent = 0x3C003C003C003C00;

void write_random(OutputFile& file, std::uint64_t bytes, XorShift& random) {
  std::vector<std::uint64_t> piece(1 << 16);
  while (bytes > 0) {
    for (std::uint64_t& word : piece) word = (random() & kKept) | kExponent;
    const auto all = std::as_bytes(std::span(piece));
    const auto part = all.first(std::min<std::uint64_t>(bytes, all.size()));
    file.write(part);
    bytes -= part.size();
  }
}

}  // namespace

Json llama_3_2_1b_config() { return llama_3_2_config(2048, 16, 32, 64); }

Json llama_3_2_3b_config() { return llama_3_2_config(3072, 28, 24, 128); }

Json tiny_config() {
  Json config = llama_3_2_config(8, 2, 4, 6);
  config.update({{"intermediate_size", 12},
                 {"num_key_value_heads", 2},
                 {"vocab_size", 20},
                 {"max_position_embeddings", 64},
                 {"bos_token_id", 1},
                 {"eos_token_id", 2}});
  return config;
}

std::vector<TensorEntry> llama_tensors(const Json& config, DType dtype) {
  const auto size = [&](const char* key) { return config.at(key).get<std::int64_t>(); };
  const std::int64_t hidden = size("hidden_size");
  const std::int64_t intermediate = size("intermediate_size");
  const std::int64_t q = size("num_attention_heads") * size("head_dim");
  const std::int64_t kv = size("num_key_value_heads") * size("head_dim");
  std::vector<TensorEntry> tensors;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    tensors.push_back({name + ".weight", dtype, std::move(shape), 0, 0});
  };
  add("model.embed_tokens", {size("vocab_size"), hidden});
  for (int i = 0; i < size("num_hidden_layers"); i++) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    add(layer + "input_layernorm", {hidden});
    add(layer + "mlp.down_proj", {hidden, intermediate});
    add(layer + "mlp.gate_proj", {intermediate, hidden});
    add(layer + "mlp.up_proj", {intermediate, hidden});
    add(layer + "post_attention_layernorm", {hidden});
    add(layer + "self_attn.k_proj", {kv, hidden});
    add(layer + "self_attn.o_proj", {hidden, q});
    add(layer + "self_attn.q_proj", {q, hidden});
    add(layer + "self_attn.v_proj", {kv, hidden});
  }
  add("model.norm", {hidden});
  if (!config.at("tie_word_embeddings").get<bool>()) add("lm_head", {size("vocab_size"), hidden});
  return tensors;
}

void write_checkpoint(const std::filesystem::path& directory, const Json& config,
                      std::vector<TensorEntry> tensors) {
  std::filesystem::create_directories(directory);
  std::ofstream(directory / "config.json") << config.dump(2);
  OutputFile file(directory / "model.safetensors");
  file.write(safetensors_header(tensors, {{"format", "pt"}}));
  XorShift random;
  for (const TensorEntry& tensor : tensors) write_random(file, tensor.end - tensor.begin, random);
  file.commit();
}

std::uint64_t write_sparse_safetensors(const std::filesystem::path& path,
                                       std::vector<TensorEntry> tensors) {
  const std::string header = safetensors_header(tensors, {{"format", "pt"}});
  std::ofstream(path, std::ios::binary) << header;
  std::filesystem::resize_file(path, header.size() + tensors.back().end);
  return header.size() - 8;
}

}  // namespace specdec
