#include "common/inflation/inflated_config.h"

#include <filesystem>
#include <string_view>

#include "common/base/error.h"
#include "common/base/mapped_file.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

struct NamedShape {
  std::string_view name;
  int d_model, d_ff, n_layers, n_heads, n_kv_heads, head_dim, vocab_size;
};

// 1.7b costs what SmolLM2-1.7B costs (it has 1,711 million weights, 0.1% more), but has other
// sizes: 24 layers with 32 heads on 32 cannot hold SmolLM2-135M, which has 30 layers with 3 heads
// per key-value head.
constexpr NamedShape kNamedShapes[] = {
    {"3b", 3072, 8192, 28, 24, 8, 128, 128256},  // Llama 3.2's
    {"1b", 2048, 8192, 16, 32, 8, 64, 128256},   // and the smaller one
    {"1.7b", 2048, 6848, 30, 33, 11, 64, 49152},
    {"360m", 960, 2560, 32, 15, 5, 64, 49152},  // SmolLM2's
    {"134m", 768, 3072, 11, 6, 2, 128, 49152},
    {"14m", 256, 1024, 2, 4, 1, 64, 49152},
};

// Fields that a named shape lacks are the base's: any shape that can hold it has the same ones.
LlamaConfig read_shape(const LlamaConfig& base, const std::string& shape,
                       const std::string& option) {
  for (const NamedShape& named : kNamedShapes) {
    if (named.name != shape) continue;
    LlamaConfig config = base;
    config.d_model = named.d_model;
    config.d_ff = named.d_ff;
    config.n_layers = named.n_layers;
    config.n_heads = named.n_heads;
    config.n_kv_heads = named.n_kv_heads;
    config.head_dim = named.head_dim;
    config.vocab_size = named.vocab_size;
    return config;
  }
  const fs::path path = fs::is_directory(shape) ? fs::path(shape) / "config.json" : fs::path(shape);
  if (!fs::exists(path)) {
    fail("{}: there is no such shape; give {} or the path of a config.json", option,
         named_shapes());
  }
  return parse_llama_config(read_text_file(path), path.string());
}

std::string rope_text(const LlamaConfig& config) {
  std::string text = fmt::format("theta {}", config.rope_theta);
  if (const auto& scaling = config.rope_scaling) {
    text += fmt::format(", scaled by {} between {} and {} of {}", scaling->factor,
                        scaling->low_freq_factor, scaling->high_freq_factor,
                        scaling->original_max_seq_len);
  }
  return text;
}

void check_holds(const LlamaConfig& shape, const LlamaConfig& base, const std::string& option) {
  const auto refuse_unless = [&](bool holds, std::string_view what, const auto& of_shape,
                                 const auto& of_base, std::string_view rule) {
    if (holds) return;
    fail("{}: the shape cannot hold the model: its {} is {}, the model's {}; it must be {}", option,
         what, of_shape, of_base, rule);
  };
  const auto at_least = [&](int LlamaConfig::*size, std::string_view name) {
    refuse_unless(shape.*size >= base.*size, name, shape.*size, base.*size, "as large or larger");
  };
  const auto equal = [&](const auto& of_shape, const auto& of_base, std::string_view name) {
    refuse_unless(of_shape == of_base, name, of_shape, of_base, "the same");
  };
  equal(shape.head_dim, base.head_dim, "head_dim");
  equal(shape.n_heads / shape.n_kv_heads, base.n_heads / base.n_kv_heads,
        "number of heads a key-value head");
  at_least(&LlamaConfig::d_model, "d_model");
  at_least(&LlamaConfig::d_ff, "d_ff");
  at_least(&LlamaConfig::n_layers, "n_layers");
  at_least(&LlamaConfig::n_kv_heads, "n_kv_heads");
  at_least(&LlamaConfig::vocab_size, "vocab_size");
  equal(rope_text(shape), rope_text(base), "RoPE");
  equal(shape.tied_head, base.tied_head, "tied_head");
}

}  // namespace

std::string named_shapes() {
  std::string names;
  for (const NamedShape& shape : kNamedShapes) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", shape.name);
  }
  return names;
}

LlamaConfig inflated_config(const LlamaConfig& base, const std::string& shape,
                            const std::string& option) {
  const LlamaConfig sizes = read_shape(base, shape, option);
  check_holds(sizes, base, option);
  LlamaConfig config = sizes;
  config.max_seq_len = base.max_seq_len;
  config.eos_ids = base.eos_ids;
  // Of the d_model numbers, only the base's are not zero. So the mean of squares is smaller by this
  // factor, and what is added to it must be smaller, too.
  config.rms_norm_eps = base.rms_norm_eps * base.d_model / config.d_model;
  return config;
}

}  // namespace specdec
