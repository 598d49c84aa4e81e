#include "common/checkpoint/llama_config.h"

#include "common/base/error.h"
#include "common/base/json.h"

namespace specdec {
namespace {

// Far beyond any model, so that no program tries to load such a config.
constexpr int kMostLayers = 10'000;

// Within these limits, no RoPE angle and no norm can become infinite or NaN. Beyond them the logits
// would, and the message would blame the weights.
struct Limits {
  double lowest, highest;
};
constexpr Limits kThetas{1, 1e30}, kScalings{1e-6, 1e10}, kEpsilons{1e-30, 1e3};

int positive_integer(const JsonObject& config, const std::string& key, std::optional<int> value) {
  if (!value) config.fail_missing(key);
  if (*value < 1) fail("{}: {} is {}; it must be 1 or more", config.name(), key, *value);
  return *value;
}

double positive_number(const JsonObject& fields, const std::string& key,
                       std::optional<double> value, Limits limits) {
  if (!value) fields.fail_missing(key);
  if (!(*value > 0)) fail("{}: {} is {}; it must be above 0", fields.name(), key, *value);
  if (!(*value >= limits.lowest && *value <= limits.highest)) {
    fail("{}: {} is {}; it must be from {} to {}", fields.name(), key, *value, limits.lowest,
         limits.highest);
  }
  return *value;
}

// The field is at the top level of older files, and among RoPE's parameters in newer ones.
void require_whole_heads(const JsonObject& fields) {
  const double factor = fields.number("partial_rotary_factor").value_or(1);
  if (factor != 1) {
    fail("{}: partial_rotary_factor is {}: rotating a part of each head is not supported",
         fields.name(), factor);
  }
}

// A field that is optional, but if it is there it must have the value that our computation assumes.
void require_false(const JsonObject& config, const std::string& key, std::string_view feature) {
  if (config.boolean(key).value_or(false)) {
    fail("{}: {} is true: {} are not supported", config.name(), key, feature);
  }
}

void refuse_other_architectures(const JsonObject& config) {
  const std::string model_type = config.string("model_type").value_or("");
  if (model_type != "llama") {
    fail("{}: model_type is \"{}\"; only \"llama\" is supported", config.name(), model_type);
  }
  if (const Json* architectures = config.find("architectures")) {
    if (*architectures != Json::array({"LlamaForCausalLM"})) {
      fail("{}: architectures is {}; only [\"LlamaForCausalLM\"] is supported", config.name(),
           excerpt(*architectures));
    }
  }
}

// "quantization" is MLX's, "compression_config" an older name of compressed-tensors.
void refuse_quantised(const JsonObject& config) {
  for (const char* key : {"quantization", "quantization_config", "compression_config"}) {
    if (!config.has(key)) continue;
    std::string method = std::string(key) == "quantization" ? "MLX" : "";
    if (const Json* fields = config.find(key); method.empty() && fields->is_object()) {
      method = JsonObject(*fields, config.name()).string("quant_method").value_or("");
    }
    fail(
        "{}: {} is set, so the weights are quantised{}; use the checkpoint in bf16, f16 or f32 "
        "that "
        "they were made from",
        config.name(), key, method.empty() ? "" : ", by " + method);
  }
}

// [snippet refuse-other-features]
void refuse_other_features(const JsonObject& config) {
  const std::string activation = config.string("hidden_act").value_or("silu");
  if (activation != "silu") {
    fail("{}: hidden_act is \"{}\"; only \"silu\" is supported", config.name(), activation);
  }
  require_false(config, "attention_bias", "biases in the attention's projections");
  require_false(config, "mlp_bias", "biases in the MLP's projections");
  if (config.has("sliding_window") && config.boolean("use_sliding_window").value_or(true)) {
    fail("{}: sliding_window is {}: sliding-window attention is not supported", config.name(),
         excerpt(*config.find("sliding_window")));
  }
  require_whole_heads(config);
  refuse_quantised(config);
}
// [end snippet refuse-other-features]

RopeScaling parse_llama3_scaling(const JsonObject& rope, int max_seq_len) {
  const auto positive = [&](const char* key) {
    return positive_number(rope, key, rope.number(key), kScalings);
  };
  RopeScaling scaling;
  scaling.factor = positive("factor");
  scaling.low_freq_factor = positive("low_freq_factor");
  scaling.high_freq_factor = positive("high_freq_factor");
  const char* original = "original_max_position_embeddings";
  scaling.original_max_seq_len =
      positive_number(rope, original, rope.number(original).value_or(max_seq_len), kScalings);
  const float low = scaling.low_freq_factor, high = scaling.high_freq_factor;
  if (!(low < high)) {
    fail("{}: low_freq_factor {} must be below high_freq_factor {}", rope.name(),
         scaling.low_freq_factor, scaling.high_freq_factor);
  }
  return scaling;
}

// Older files have rope_theta at the top level and a rope_scaling; newer files have everything in
// rope_parameters. In a file with both, rope_scaling counts unless it is empty, as in transformers.
void parse_rope(const JsonObject& config, LlamaConfig& result) {
  require_false(config, "rope_interleaved", "rotary embeddings of adjacent pairs");
  const Json* fields = config.find("rope_scaling");
  const bool older = fields != nullptr && !fields->empty();
  const std::string key = older ? "rope_scaling" : "rope_parameters";
  constexpr double kDefaultTheta = 10000;
  const std::optional<double> top_level_theta = config.number("rope_theta");
  const auto theta = [&](std::optional<double> inner) {
    return inner ? inner : top_level_theta ? top_level_theta : kDefaultTheta;
  };

  const std::optional<JsonObject> rope = config.object(key);
  result.rope_theta = positive_number(
      config, "rope_theta", theta(rope ? rope->number("rope_theta") : std::nullopt), kThetas);
  if (!rope || rope->empty()) return;
  require_whole_heads(*rope);
  for (const char* layer_type : {"full_attention", "sliding_attention"}) {
    if (rope->has(layer_type)) {
      fail("{}: {} is keyed by layer type ({}): only one RoPE for all layers is supported",
           config.name(), key, layer_type);
    }
  }
  const std::string type =
      rope->string("rope_type").value_or(rope->string("type").value_or("default"));
  if (type == "llama3") {
    result.rope_scaling = parse_llama3_scaling(*rope, result.max_seq_len);
  } else if (type != "default") {
    fail("{}: {}: the RoPE type \"{}\" is not supported; \"default\" and \"llama3\" are",
         config.name(), key, type);
  }
}

// One id, a list of ids, or null.
std::vector<TokenId> parse_eos_ids(const JsonObject& config, int vocab_size) {
  const Json* field = config.find("eos_token_id");
  if (field == nullptr) return {};
  const Json list = field->is_array() ? *field : Json::array({*field});
  std::vector<TokenId> ids;
  for (const Json& entry : list) {
    const std::optional<int> id = as_int(entry);
    if (!id) config.fail_type("eos_token_id", "an id or a list of ids");
    if (*id < 0 || *id >= vocab_size) {
      fail("{}: eos_token_id {} is outside the vocabulary of {} entries", config.name(), *id,
           vocab_size);
    }
    ids.push_back(*id);
  }
  return ids;
}

void check_heads(const LlamaConfig& config, const std::string& name) {
  if (config.n_heads % config.n_kv_heads != 0) {
    fail("{}: num_attention_heads {} is no multiple of num_key_value_heads {}", name,
         config.n_heads, config.n_kv_heads);
  }
  if (config.head_dim % 2 != 0) {
    fail("{}: head_dim {} is odd; rotary embeddings turn pairs", name, config.head_dim);
  }
}

}  // namespace

LlamaConfig parse_llama_config(std::string_view text, const std::string& name) {
  const Json root = parse_json(text, name);
  const JsonObject config(root, name);
  refuse_other_architectures(config);
  refuse_other_features(config);

  const auto size = [&](const char* key) {
    return positive_integer(config, key, config.integer(key));
  };
  LlamaConfig result;
  result.d_model = size("hidden_size");
  result.d_ff = size("intermediate_size");
  result.n_layers = size("num_hidden_layers");
  if (result.n_layers > kMostLayers) {
    fail("{}: num_hidden_layers is {}; it must be {} or less", name, result.n_layers, kMostLayers);
  }
  result.n_heads = size("num_attention_heads");
  result.vocab_size = size("vocab_size");
  result.max_seq_len = size("max_position_embeddings");
  result.n_kv_heads =
      positive_integer(config, "num_key_value_heads",
                       config.integer("num_key_value_heads").value_or(result.n_heads));
  result.head_dim = positive_integer(
      config, "head_dim", config.integer("head_dim").value_or(result.d_model / result.n_heads));
  check_heads(result, name);
  result.rms_norm_eps = positive_number(config, "rms_norm_eps",
                                        config.number("rms_norm_eps").value_or(1e-6), kEpsilons);
  parse_rope(config, result);
  result.tied_head = config.boolean("tie_word_embeddings").value_or(false);
  result.eos_ids = parse_eos_ids(config, result.vocab_size);
  return result;
}

std::vector<TokenId> parse_generation_eos_ids(std::string_view text, const std::string& name,
                                              int vocab_size) {
  const Json root = parse_json(text, name);
  return parse_eos_ids(JsonObject(root, name), vocab_size);
}

}  // namespace specdec
