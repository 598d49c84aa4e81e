// What a shape must be to hold a model, and the shapes that have names.
#include "tests/unit/common/inflation/inflation_fixture.h"

namespace specdec {
namespace {

using InflatedConfigTest = InflationTest;

TEST_F(InflatedConfigTest, NamedShapes) {
  const LlamaConfig target = Checkpoint(golden_model("target")).config();
  const LlamaConfig draft = Checkpoint(golden_model("draft")).config();
  const auto expect_sizes = [](const LlamaConfig& got, const LlamaConfig& base,
                               const std::vector<int>& sizes) {
    EXPECT_EQ((std::vector<int>{got.d_model, got.d_ff, got.n_layers, got.n_heads, got.n_kv_heads,
                                got.head_dim, got.vocab_size}),
              sizes);
    EXPECT_EQ(got.max_seq_len, base.max_seq_len);
    EXPECT_EQ(got.eos_ids, base.eos_ids);
    EXPECT_EQ(got.rope_theta, base.rope_theta);
    EXPECT_EQ(got.rope_scaling->factor, base.rope_scaling->factor);
    EXPECT_TRUE(got.tied_head);
    EXPECT_DOUBLE_EQ(got.rms_norm_eps * got.d_model, base.rms_norm_eps * base.d_model);
  };
  for (const auto& [name, published] :
       {std::pair("3b", llama_3_2_3b_config()), std::pair("1b", llama_3_2_1b_config())}) {
    const LlamaConfig& base = std::string(name) == "3b" ? target : draft;
    std::vector<int> sizes;
    for (const char* key :
         {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
          "num_key_value_heads", "head_dim", "vocab_size"}) {
      sizes.push_back(published.at(key));
    }
    expect_sizes(inflated_config(base, name, "--inflate-x"), base, sizes);
    // The published file itself says the same.
    expect_sizes(inflated_config(base, shape(published), "--inflate-x"), base, sizes);
  }
  expect_sizes(inflated_config(target, "134m", "--inflate-x"), target,
               {768, 3072, 11, 6, 2, 128, 49152});
  expect_sizes(inflated_config(draft, "14m", "--inflate-x"), draft,
               {256, 1024, 2, 4, 1, 64, 49152});
}

// Weights in matrices, with a tied head.
std::int64_t weights_of(const LlamaConfig& c) {
  const std::int64_t d = c.d_model, heads = c.n_heads * c.head_dim,
                     kv_heads = c.n_kv_heads * c.head_dim;
  return c.n_layers * d * (2 * heads + 2 * kv_heads + 3 * c.d_ff) + c.vocab_size * d;
}

TEST_F(InflatedConfigTest, TheSmallestSmolLM2FitsTheShapesOfItsRelatives) {
  LlamaConfig smollm2 = Checkpoint(golden_model("draft")).config();
  smollm2.d_model = 576;
  smollm2.d_ff = 1536;
  smollm2.n_layers = 30;
  smollm2.n_heads = 9;
  smollm2.n_kv_heads = 3;
  smollm2.head_dim = 64;
  smollm2.vocab_size = 49152;
  EXPECT_EQ(weights_of(inflated_config(smollm2, "360m", "--inflate-x")), 361'758'720);
  // SmolLM2-1.7B itself: 24 layers, d_model 2048, d_ff 8192, 32 heads on 32 of 64.
  LlamaConfig largest = smollm2;
  largest.d_model = 2048;
  largest.d_ff = 8192;
  largest.n_layers = 24;
  largest.n_heads = largest.n_kv_heads = 32;
  const LlamaConfig shape = inflated_config(smollm2, "1.7b", "--inflate-x");
  EXPECT_NEAR(static_cast<double>(weights_of(shape)) / static_cast<double>(weights_of(largest)), 1,
              0.002);
  EXPECT_EQ(shape.n_heads / shape.n_kv_heads, 3);
  for (const char* name : {"360m", "1.7b"}) {
    EXPECT_THAT(error_message([&] {
                  inflated_config(Checkpoint(golden_model("target")).config(), name,
                                  "--inflate-target");
                }),
                ::testing::HasSubstr("head_dim is 64, the model's 128"));
  }
}

TEST_F(InflatedConfigTest, ADirectoryOrAFileAndTheModelItself) {
  const Checkpoint target(golden_model("target"));
  const LlamaConfig same =
      inflated_config(target.config(), golden_model("target").string(), "--inflate-target");
  EXPECT_EQ(same.d_model, 192);
  EXPECT_EQ(same.rms_norm_eps, target.config().rms_norm_eps);
  const InflatedWeights weights(target, same, 2);
  for (const WeightKind kind : kLayerKinds) {
    EXPECT_EQ(Numbers(weights.weight(kind, 3)).values, Numbers(target.weight(kind, 3)).values);
  }
}

TEST_F(InflatedConfigTest, ShapesThatCannotHoldTheModelAreRefusedWithBothNumbers) {
  const LlamaConfig tiny_model = base().config();
  const auto refusal = [&](const Json& changes) {
    Json config = large(true);
    config.update(changes);
    return error_message([&] { inflated_config(tiny_model, shape(config), "--inflate-target X"); });
  };
  const std::string rope = "scaled by 32 between 1 and 4 of 8192";
  const std::string the_same = "; it must be the same", larger = "; it must be as large or larger";
  const std::pair<Json, std::string> refusals[] = {
      {{{"head_dim", 8}}, "head_dim is 8, the model's 6" + the_same},
      {{{"num_attention_heads", 9}},
       "number of heads a key-value head is 3, the model's 2" + the_same},
      {{{"hidden_size", 7}}, "d_model is 7, the model's 8" + larger},
      {{{"intermediate_size", 11}}, "d_ff is 11, the model's 12" + larger},
      {{{"num_hidden_layers", 1}}, "n_layers is 1, the model's 2" + larger},
      {{{"num_attention_heads", 2}, {"num_key_value_heads", 1}},
       "n_kv_heads is 1, the model's 2" + larger},
      {{{"vocab_size", 19}}, "vocab_size is 19, the model's 20" + larger},
      {{{"rope_theta", 10000}},
       "RoPE is theta 10000, " + rope + ", the model's theta 500000, " + rope + the_same},
      {{{"rope_scaling", nullptr}},
       "RoPE is theta 500000, the model's theta 500000, " + rope + the_same},
      {{{"tie_word_embeddings", false}}, "tied_head is false, the model's true" + the_same}};
  for (const auto& [changes, reason] : refusals) {
    EXPECT_EQ(refusal(changes),
              "--inflate-target X: the shape cannot hold the model: its " + reason);
  }
  EXPECT_EQ(refusal(Json::object()), "");
}

TEST_F(InflatedConfigTest, ShapesThatAreNone) {
  const LlamaConfig model = Checkpoint(golden_model("target")).config();
  const auto refusal = [&](const std::string& shape) {
    return error_message([&] { inflated_config(model, shape, "--inflate-target " + shape); });
  };
  EXPECT_EQ(
      refusal("7b"),
      "--inflate-target 7b: there is no such shape; give 3b, 1b, 1.7b, 360m, 134m, 14m or the "
      "path of a config.json");
  EXPECT_THAT(refusal("14m"), ::testing::HasSubstr("head_dim is 64, the model's 128"));
  EXPECT_THAT(refusal(directory_.path().string()), ::testing::HasSubstr("no such shape"));
  EXPECT_THAT(refusal(directory_.write("a.json", "{}").string()),
              ::testing::HasSubstr("a.json: model_type"));
}

}  // namespace
}  // namespace specdec
