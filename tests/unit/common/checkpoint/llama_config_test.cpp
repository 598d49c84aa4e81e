// config.json in every spelling that we accept, and the words with which we refuse the others.
#include "common/checkpoint/llama_config.h"

#include "common/base/json_value.h"
#include "tests/checkpoint_builder.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

LlamaConfig parse(const Json& config) { return parse_llama_config(config.dump(), "config.json"); }

// Some fields of an object replaced, also within its objects; a null removes the field.
Json patched(const Json& object, const Json& changes) {
  Json result = object.is_object() ? object : Json::object();
  for (const auto& [key, value] : changes.items()) {
    if (value.is_null()) {
      result.erase(key);
    } else {
      result[key] = value.is_object() ? patched(result[key], value) : value;
    }
  }
  return result;
}

Json with(const Json& changes) { return patched(tiny_config(), changes); }

TEST(LlamaConfigTest, ReadsThePublished1B) {
  const LlamaConfig config = parse(llama_3_2_1b_config());
  EXPECT_EQ(config.d_model, 2048);
  EXPECT_EQ(config.d_ff, 8192);
  EXPECT_EQ(config.n_layers, 16);
  EXPECT_EQ(config.n_heads, 32);
  EXPECT_EQ(config.n_kv_heads, 8);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.vocab_size, 128256);
  EXPECT_EQ(config.max_seq_len, 131072);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.rope_theta, 500000.0);
  ASSERT_TRUE(config.rope_scaling);
  EXPECT_EQ(config.rope_scaling->factor, 32);
  EXPECT_EQ(config.rope_scaling->low_freq_factor, 1);
  EXPECT_EQ(config.rope_scaling->high_freq_factor, 4);
  EXPECT_EQ(config.rope_scaling->original_max_seq_len, 8192);
  EXPECT_TRUE(config.tied_head);
  EXPECT_EQ(config.eos_ids, (std::vector<TokenId>{128001, 128008, 128009}));
}

TEST(LlamaConfigTest, TheNewerSpellingMeansTheSame) {
  Json newer = llama_3_2_3b_config();
  newer["rope_parameters"] = newer["rope_scaling"];
  newer["rope_parameters"]["rope_theta"] = newer["rope_theta"];
  newer["dtype"] = newer["torch_dtype"];
  for (const char* key : {"rope_scaling", "rope_theta", "torch_dtype"}) newer.erase(key);
  const LlamaConfig config = parse(newer);
  EXPECT_EQ(config.rope_theta, 500000.0);
  ASSERT_TRUE(config.rope_scaling);
  EXPECT_EQ(config.rope_scaling->factor, 32);
}

TEST(LlamaConfigTest, RopePrecedence) {
  const Json llama3 = tiny_config()["rope_scaling"];
  // A rope_scaling that is not empty counts before rope_parameters.
  Json both = with({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 7.0}}}});
  EXPECT_TRUE(parse(both).rope_scaling);
  EXPECT_EQ(parse(both).rope_theta, 500000.0);
  both["rope_scaling"] = Json::object();
  EXPECT_FALSE(parse(both).rope_scaling);
  EXPECT_EQ(parse(both).rope_theta, 7.0) << "theta inside the dictionary before the top level";
  // theta: inside, then the top level, then 10000.
  EXPECT_EQ(parse(with({{"rope_scaling", nullptr}})).rope_theta, 500000.0);
  EXPECT_EQ(parse(with({{"rope_scaling", nullptr}, {"rope_theta", nullptr}})).rope_theta, 10000.0);
  EXPECT_EQ(parse(with({{"rope_scaling", {{"rope_theta", 9}}}})).rope_theta, 9.0);
  // "type" is the older name of "rope_type", and no type at all is the default.
  Json older = with(Json::object());
  older["rope_scaling"].erase("rope_type");
  EXPECT_FALSE(parse(older).rope_scaling);
  older["rope_scaling"]["type"] = "llama3";
  EXPECT_TRUE(parse(older).rope_scaling);
  // Without original_max_position_embeddings, the model's own length stands in.
  older["rope_scaling"].erase("original_max_position_embeddings");
  EXPECT_EQ(parse(older).rope_scaling->original_max_seq_len, 64);
}

TEST(LlamaConfigTest, DefaultsAndHarmlessVariants) {
  const LlamaConfig config = parse(with({{"head_dim", nullptr},
                                         {"num_key_value_heads", nullptr},
                                         {"rms_norm_eps", nullptr},
                                         {"tie_word_embeddings", nullptr},
                                         {"attention_bias", nullptr},
                                         {"mlp_bias", nullptr},
                                         {"architectures", nullptr},
                                         {"hidden_act", nullptr},
                                         {"eos_token_id", nullptr},
                                         {"sliding_window", nullptr},
                                         {"rope_theta", 500000},
                                         {"pretraining_tp", 2},
                                         {"something_new", {{"a", 1}}}}));
  EXPECT_EQ(config.head_dim, 2);
  EXPECT_EQ(config.n_kv_heads, 4);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_FALSE(config.tied_head);
  EXPECT_TRUE(config.eos_ids.empty());
  EXPECT_EQ(config.rope_theta, 500000.0);
  EXPECT_EQ(parse(with({{"sliding_window", 4096}, {"use_sliding_window", false}})).d_model, 8);
  EXPECT_EQ(parse(with({{"partial_rotary_factor", 1.0}})).d_model, 8);
  EXPECT_EQ(parse(with({{"n_heads", 3}, {"head_dim", 256}})).head_dim, 256);
}

TEST(LlamaConfigTest, GenerationConfigGivesOneOrSeveralEosIds) {
  const auto ids = [](const char* text) { return parse_generation_eos_ids(text, "g.json", 100); };
  EXPECT_EQ(ids(R"({"eos_token_id": 3})"), (std::vector<TokenId>{3}));
  EXPECT_EQ(ids(R"({"eos_token_id": [3, 99], "temperature": 0.6})"), (std::vector<TokenId>{3, 99}));
  EXPECT_TRUE(ids(R"({"eos_token_id": null})").empty());
  EXPECT_TRUE(ids("{}").empty());
  EXPECT_ERROR(ids(R"({"eos_token_id": [100]})"), "g.json: eos_token_id 100 is outside");
  EXPECT_ERROR(ids(R"({"eos_token_id": "x"})"), "eos_token_id is \"x\"; it must be an id or");
  EXPECT_ERROR(ids(R"({"eos_token_id": [3, 1.5]})"), "it must be an id or a list of ids");
  EXPECT_ERROR(ids("[3]"), "g.json: expected an object");
}

struct BadConfig {
  Json changes;
  const char* message;
};

std::vector<BadConfig> not_llama() {
  return {
      {{{"model_type", "mistral"}}, "model_type is \"mistral\"; only \"llama\""},
      {{{"model_type", nullptr}}, "model_type is \"\"; only \"llama\""},
      {{{"architectures", {"LlamaForSequenceClassification"}}},
       "architectures is [\"LlamaForSequenceClassification\"]"},
      {{{"hidden_act", "gelu"}}, "hidden_act is \"gelu\"; only \"silu\""},
      {{{"attention_bias", true}}, "attention_bias is true: biases in the attention"},
      {{{"mlp_bias", true}}, "mlp_bias is true: biases in the MLP"},
      {{{"sliding_window", 4096}}, "sliding_window is 4096: sliding-window attention"},
      {{{"partial_rotary_factor", 0.5}}, "partial_rotary_factor is 0.5"},
      {{{"rope_scaling", {{"partial_rotary_factor", 0.5}, {"rope_type", "default"}}}},
       "rope_scaling: partial_rotary_factor is 0.5: rotating a part"},
      {{{"rope_scaling", nullptr}, {"rope_parameters", {{"partial_rotary_factor", 0.25}}}},
       "rope_parameters: partial_rotary_factor is 0.25"},
      {{{"quantization_config", {{"bits", 4}}}},
       "quantization_config is set, so the weights are quantised; use the checkpoint in bf16"},
      {{{"quantization_config", {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}}}},
       "quantization_config is set, so the weights are quantised, by bitsandbytes; use the"},
      {{{"quantization_config", {{"quant_method", "gptq"}, {"bits", 4}}}}, "quantised, by gptq"},
      {{{"quantization_config", {{"quant_method", "awq"}, {"bits", 4}}}}, "quantised, by awq"},
      {{{"quantization", {{"group_size", 64}, {"bits", 4}}},
        {"quantization_config", {{"group_size", 64}, {"bits", 4}}}},
       "quantization is set, so the weights are quantised, by MLX"},
      {{{"compression_config", {{"quant_method", "compressed-tensors"}}}},
       "compression_config is set, so the weights are quantised, by compressed-tensors"},
      {{{"rope_interleaved", true}}, "rope_interleaved is true: rotary embeddings of adjacent"},
      {{{"rope_scaling", {{"rope_type", "yarn"}}}}, "RoPE type \"yarn\" is not supported"},
      {{{"rope_scaling", {{"rope_type", nullptr}, {"type", "linear"}}}}, "\"linear\""},
      {{{"rope_scaling", nullptr}, {"rope_parameters", {{"full_attention", {{"a", 1}}}}}},
       "rope_parameters is keyed by layer type (full_attention)"},
  };
}

std::vector<BadConfig> contradictions() {
  return {
      {{{"hidden_size", nullptr}}, "the field hidden_size is missing"},
      {{{"hidden_size", 0}}, "hidden_size is 0; it must be 1 or more"},
      {{{"hidden_size", "8"}}, "hidden_size is \"8\"; it must be an integer"},
      {{{"hidden_size", 3000000000}}, "hidden_size is 3000000000; it must be an integer below"},
      {{{"num_hidden_layers", -1}}, "num_hidden_layers is -1"},
      {{{"num_hidden_layers", 2147483647}}, "is 2147483647; it must be 10000 or less"},
      {{{"vocab_size", 1.5}}, "vocab_size is 1.5; it must be an integer"},
      {{{"num_key_value_heads", 3}}, "num_attention_heads 4 is no multiple of num_key_value_heads"},
      {{{"num_key_value_heads", 0}}, "num_key_value_heads is 0"},
      {{{"head_dim", 7}}, "head_dim 7 is odd"},
      {{{"head_dim", nullptr}, {"num_attention_heads", 16}}, "head_dim is 0; it must be 1 or more"},
      {{{"rms_norm_eps", 0}}, "rms_norm_eps is 0; it must be above 0"},
      {{{"rope_theta", -1}}, "rope_theta is -1; it must be above 0"},
      {{{"rms_norm_eps", 1e-300}}, "rms_norm_eps is 1e-300; it must be from 1e-30 to 1000"},
      {{{"rms_norm_eps", 1e300}}, "rms_norm_eps is 1e+300; it must be from 1e-30 to 1000"},
      {{{"rope_theta", 1e-300}}, "rope_theta is 1e-300; it must be from 1 to 1e+30"},
      {{{"rope_theta", 1e300}}, "rope_theta is 1e+300; it must be from 1 to 1e+30"},
      {{{"rope_theta", true}}, "rope_theta is true; it must be a number"},
      {{{"rope_scaling", "llama3"}}, "rope_scaling is \"llama3\"; it must be an object"},
      {{{"rope_scaling", {{"factor", nullptr}}}}, "rope_scaling: the field factor is missing"},
      {{{"rope_scaling", {{"factor", 0}}}}, "rope_scaling: factor is 0; it must be above 0"},
      {{{"rope_scaling", {{"factor", 1e-300}}}}, "factor is 1e-300; it must be from 1e-06 to"},
      {{{"rope_scaling", {{"low_freq_factor", 1e-300}}}}, "low_freq_factor is 1e-300; it must be"},
      {{{"rope_scaling", {{"high_freq_factor", 1e300}}}}, "high_freq_factor is 1e+300; it must"},
      {{{"rope_scaling", {{"original_max_position_embeddings", 1e300}}}},
       "original_max_position_embeddings is 1e+300; it must be from"},
      {{{"rope_scaling", {{"low_freq_factor", 1.0}, {"high_freq_factor", 1.00000001}}}},
       "low_freq_factor 1 must be below"},
      {{{"rope_scaling", {{"high_freq_factor", 1.0}}}}, "low_freq_factor 1 must be below"},
      {{{"eos_token_id", 20}}, "eos_token_id 20 is outside the vocabulary of 20 entries"},
      {{{"eos_token_id", {2, -1}}}, "eos_token_id -1 is outside"},
      {{{"tie_word_embeddings", 1}}, "tie_word_embeddings is 1; it must be true or false"},
  };
}

TEST(LlamaConfigBadInputTest, EachKindHasItsMessage) {
  ASSERT_EQ(parse(with(Json::object())).d_model, 8) << "the config without the change is good";
  for (const auto& list : {not_llama(), contradictions()}) {
    for (const BadConfig& bad : list) {
      const std::string message = error_message([&] { parse(with(bad.changes)); });
      EXPECT_THAT(message, ::testing::StartsWith("config.json: ")) << bad.changes;
      EXPECT_THAT(message, ::testing::HasSubstr(bad.message)) << bad.changes;
    }
  }
}

TEST(LlamaConfigBadInputTest, TextThatIsNoConfig) {
  const auto parse_text = [](const char* text) { return parse_llama_config(text, "config.json"); };
  EXPECT_ERROR(parse_text("{"), "config.json: not valid JSON at line 1");
  EXPECT_ERROR(parse_text("[]"), "config.json: expected an object, found []");
  EXPECT_ERROR(parse_text("{}"), "model_type is \"\"");
}

}  // namespace
}  // namespace specdec
