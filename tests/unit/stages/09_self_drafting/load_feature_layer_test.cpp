// Published layouts of feature layers: which are read, and why others are refused.
#include "tests/engine_fixture.h"
#include "tests/unit/stages/09_self_drafting/feature_folder.h"

namespace specdec {
namespace {

LlamaConfig target() {
  LlamaConfig config;
  config.d_model = 24;
  config.n_layers = 2;
  config.vocab_size = 3100;
  return config;
}

class LoadFeatureLayer : public ::testing::Test {
 protected:
  FeatureLayer load(const FeatureFolder& folder) { return folder.load(*backend_); }

  std::unique_ptr<Backend> backend_ = make_plain_backend();
  FeatureFolder eagle_{"EAGLE", target()}, eagle3_{"EAGLE-3", target()}, mtp_{"MTP", target()};
};

TEST_F(LoadFeatureLayer, TheTensorsNamesTellTheKind) {
  EXPECT_EQ(load(eagle_).switches.name, "EAGLE");
  EXPECT_EQ(load(eagle_).places, std::vector<int>{Outputs::kAfterNorm});
  const FeatureLayer three = load(eagle3_);
  EXPECT_EQ(three.switches.name, "EAGLE-3");
  EXPECT_EQ(three.places, (std::vector<int>{1, 2, 2}));
  ASSERT_EQ(three.head.tokens.size(), 1000u);
  EXPECT_EQ(three.head.tokens[5], 16);  // d2t is added to the row's number
  EXPECT_EQ(load(mtp_).switches.name, "MTP");
}

// Older files call the layer of EAGLE-3 as EAGLE does.
TEST_F(LoadFeatureLayer, OtherNamesOfTheSame) {
  FeatureFolder older = eagle3_;
  for (const auto& [name, tensor] : eagle3_.tensors) {
    if (name.starts_with("midlayer.")) older.rename(name, "layers.0." + name.substr(9));
  }
  EXPECT_EQ(load(older).switches.name, "EAGLE-3");
  LlamaConfig deep = target();
  deep.n_layers = 12;
  FeatureFolder twelve("EAGLE-3", deep);
  twelve.config.erase("eagle_config");
  EXPECT_EQ(load(twelve).places, (std::vector<int>{2, 6, 9}));
}

// MTP by the names of Qwen3-Next, which has norms minus 1.
TEST_F(LoadFeatureLayer, MtpOfQwen) {
  FeatureFolder qwen = mtp_;
  const std::map<std::string, std::string> names = {{"enorm", "pre_fc_norm_embedding"},
                                                    {"hnorm", "pre_fc_norm_hidden"},
                                                    {"eh_proj", "fc"},
                                                    {"shared_head.norm", "norm"}};
  constexpr std::string_view kBefore = "model.layers.2.", kAfter = ".weight";
  for (const auto& [name, tensor] : mtp_.tensors) {
    const std::string middle =
        name.substr(kBefore.size(), name.size() - kBefore.size() - kAfter.size());
    const auto other = names.find(middle);
    const std::string renamed = other == names.end() ? "layers.0." + middle : other->second;
    qwen.rename(name, "mtp." + renamed + ".weight");
  }
  EXPECT_ERROR(load(qwen), "mtp_num_hidden_layers");
  qwen.config["mtp_num_hidden_layers"] = 1;
  const FeatureLayer layer = load(qwen), same = load(mtp_);
  EXPECT_EQ(layer.switches.name, "MTP");
  for (const auto of :
       {&FeatureLayer::embedding_norm, &FeatureLayer::feature_norm, &FeatureLayer::head_norm}) {
    std::vector<float> got(24), want(24);
    backend_->download((layer.*of).data(), got.data(), 24 * sizeof(float));
    backend_->download((same.*of).data(), want.data(), 24 * sizeof(float));
    for (float& weight : want) weight += 1;
    EXPECT_EQ(got, want);
  }
  FeatureFolder gated = qwen;  // what Qwen3-Next has and Llama's block lacks
  gated.add("mtp.layers.0.self_attn.q_norm.weight", {16}, 1);
  EXPECT_ERROR(load(gated), "tensor mtp.layers.0.self_attn.q_norm.weight belongs to no heads");
  gated = qwen;
  gated.add("mtp.layers.0.self_attn.q_proj.weight", {64, 24}, 1);
  EXPECT_ERROR(load(gated),
               "mtp.layers.0.self_attn.q_proj.weight has the shape [64, 24], not [32,");
  qwen.config["mtp_num_hidden_layers"] = 2;  // all but the blocks is of both
  EXPECT_ERROR(load(qwen), "the tensor mtp.layers.1.self_attn.q_proj.weight is missing");
  for (const auto& [name, tensor] : std::map(qwen.tensors)) {
    if (!name.starts_with("mtp.layers.0.")) continue;
    qwen.tensors["mtp.layers.1." + name.substr(13)] = tensor;
  }
  EXPECT_EQ(qwen.load_all(*backend_).size(), 2u);
  qwen.config["mtp_num_hidden_layers"] = 1;
  EXPECT_ERROR(load(qwen), "tensor mtp.layers.1.");
}

TEST_F(LoadFeatureLayer, MtpMayHaveSeveralModules) {
  const FeatureFolder three("MTP-3", target());
  EXPECT_EQ(three.load_all(*backend_).size(), 3u);
  FeatureFolder two = three, four = three;
  two.config["num_nextn_predict_layers"] = 2;
  EXPECT_ERROR(load(two), "tensor model.layers.4.");
  four.config["num_nextn_predict_layers"] = 4;
  EXPECT_ERROR(load(four), "the tensor model.layers.5.enorm.weight is missing");
}

// The feature of masks is what the layer makes of mask_hidden, as of the target's rows.
TEST_F(LoadFeatureLayer, ALayerWithMasksDraftsInOnePass) {
  FeatureFolder masked("P-EAGLE", target());
  const FeatureLayer layer = load(masked);
  EXPECT_EQ(layer.switches.name, "EAGLE-3");
  EXPECT_EQ(layer.block->config().n_layers, 2);
  EXPECT_EQ(layer.mask, FeatureFolder::kMask);
  ASSERT_EQ(layer.mask_feature.size(), 24u);
  EXPECT_EQ(load(eagle3_).mask_feature.size(), 0u);
  std::vector<float> got(24);
  backend_->download(layer.mask_feature.data(), got.data(), 24 * sizeof(float));
  const std::vector<float> fc = masked.tensors["fc.weight"].floats(),
                           rows = masked.tensors["mask_hidden"].floats();
  for (std::size_t i = 0; i < 24; i++) {
    double sum = 0;
    for (std::size_t j = 0; j < 72; j++) sum += double(fc[i * 72 + j]) * double(rows[j]);
    EXPECT_NEAR(double(got[i]), sum, 1e-5);
  }
  masked.put("mask_hidden", DType::kF32, {1, 1, 72}, rows);  // as some files have it
  EXPECT_EQ(load(masked).mask_feature.size(), 24u);
  masked.config["ptd_token_id"] = 9;
  masked.config.erase("pard_token");
  EXPECT_EQ(load(masked).mask, 9);
}

TEST_F(LoadFeatureLayer, MasksThatDoNotFitAreRefusedByName) {
  FeatureFolder masked("P-EAGLE", target());
  masked.add("mask_hidden", {1, 48}, 1);
  EXPECT_ERROR(load(masked), "tensor mask_hidden has the shape [1, 48], not [1, 72]");
  masked.tensors.erase("mask_hidden");
  masked.config["parallel_drafting"] = true;
  EXPECT_ERROR(load(masked), "the tensor mask_hidden is missing");
  masked.add("mask_hidden", {1, 72}, 1);
  masked.config["pard_token"] = 3100;
  EXPECT_ERROR(load(masked), "pard_token is 3100, and the vocabulary has 3100 rows");
  masked.config.erase("pard_token");
  EXPECT_ERROR(load(masked), "pard_token is missing");
  masked.config["mask_token_id"] = 5;
  masked.config["num_hidden_layers"] = 3;
  EXPECT_ERROR(load(masked), "the tensor layers.2.");
  masked.config["num_hidden_layers"] = 1;
  EXPECT_ERROR(load(masked), "tensor layers.1.");
}

// Weights that a file has although they could be the target's are the layer's own.
TEST_F(LoadFeatureLayer, OwnEmbeddingAndHead) {
  EXPECT_EQ(load(eagle_).embedding, nullptr);
  EXPECT_EQ(load(eagle_).head.matrix, nullptr);
  eagle_.add("embed_tokens.weight", {3100, 24}, 1);
  eagle_.add("lm_head.weight", {3100, 24}, 1);
  EXPECT_EQ(load(eagle_).embedding->rows(), 3100);
  EXPECT_EQ(load(eagle_).head.matrix->rows(), 3100);
  mtp_.add("model.layers.2.shared_head.head.weight", {3100, 24}, 1);
  EXPECT_EQ(load(mtp_).head.matrix->rows(), 3100);
}

TEST_F(LoadFeatureLayer, WhatDoesNotFitTheTargetIsRefusedByName) {
  FeatureFolder wide = eagle_, many = eagle_, deep = mtp_;
  wide.config["hidden_size"] = 32;
  EXPECT_ERROR(load(wide), "hidden_size is 32, and the target's is 24");
  many.config["vocab_size"] = 3101;
  EXPECT_ERROR(load(many), "vocab_size is 3101, and the target's is 3100");
  for (const auto& [name, tensor] : mtp_.tensors)
    deep.rename(name, "model.layers.3" + name.substr(14));
  EXPECT_ERROR(load(deep), "no feature layer for a target of 2 blocks: has neither fc.weight");
  eagle3_.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = {0, 1, 2};
  EXPECT_ERROR(load(eagle3_), "layer_ids: 2 is none of the target's blocks, 0 to 1");
  eagle3_.config.erase("eagle_config");
  EXPECT_ERROR(load(eagle3_), "layer_ids is missing; the target has only 2 blocks");
}

TEST_F(LoadFeatureLayer, OtherNumbersOfRowsAreRefused) {
  eagle3_.add("fc.weight", {24, 5 * 24}, 1);
  EXPECT_ERROR(load(eagle3_), "fc.weight reads 5 rows of the target, but ");
  eagle3_.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = {0, 0, 0, 1, 1};
  EXPECT_ERROR(load(eagle3_), "has 5 entries; it must have 1 to 4");
  eagle3_.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = Json::array();
  EXPECT_ERROR(load(eagle3_), "has 0 entries");
}

TEST_F(LoadFeatureLayer, MissingAndOtherTensorsAreRefusedByName) {
  const auto without = [](FeatureFolder folder, const std::string& name) {
    folder.tensors.erase(name);
    return folder;
  };
  for (const FeatureFolder* folder : {&eagle_, &eagle3_, &mtp_}) {
    for (const auto& tensor : folder->tensors) {
      const std::string& name = tensor.first;
      if (name == "lm_head.weight") continue;  // without it, the target's own rows
      EXPECT_THAT(error_message([&] { load(without(*folder, name)); }), ::testing::StrNe(""))
          << name;
    }
  }
  EXPECT_ERROR(load(without(eagle_, "layers.0.mlp.up_proj.weight")),
               "the tensor layers.0.mlp.up_proj.weight is missing");
  eagle_.add("layers.0.input_layernorm.weight", {24}, 1);
  EXPECT_ERROR(load(eagle_), "tensor layers.0.input_layernorm.weight belongs to no heads");
  eagle3_.add("fc.bias", {24}, 1);
  EXPECT_ERROR(load(eagle3_), "tensor fc.bias belongs to no heads");
  mtp_.add("model.layers.2.eh_proj.weight", {24, 24}, 1);
  EXPECT_ERROR(load(mtp_), "eh_proj.weight has the shape [24, 24], not [24, 48]");
}

TEST_F(LoadFeatureLayer, ABiasIsThereIfTheConfigurationSaysSo) {
  FeatureFolder without = eagle_;
  without.tensors.erase("fc.bias");
  EXPECT_ERROR(load(without), "the tensor fc.bias is missing; the layer has none only if");
  without.config["bias"] = false;
  EXPECT_EQ(load(without).fc_bias.size(), 0u);
  eagle_.config["bias"] = false;
  EXPECT_ERROR(load(eagle_), "has the tensor fc.bias, but ");
}

TEST_F(LoadFeatureLayer, AHeadOfFewerTokensHasItsList) {
  FeatureFolder outside = eagle3_, twice = eagle3_, unknown = eagle3_, more = eagle3_,
                type = eagle3_;
  std::vector<std::int64_t> offsets(1000);
  std::vector<std::uint8_t> known(3100);
  for (int i = 0; i < 1000; i++) offsets[std::size_t(i)] = 2 * i + 1;
  for (int i = 0; i < 1000; i++) known[std::size_t(3 * i + 1)] = 1;
  offsets[7] = 3093;
  outside.put("d2t", DType::kI64, {1000}, offsets);
  EXPECT_ERROR(load(outside), "row 7 would be of token 7 + 3093, which is none of the target's");
  offsets[7] = 12;
  twice.put("d2t", DType::kI64, {1000}, offsets);
  EXPECT_ERROR(load(twice), "row 7 would be of token 7 + 12, which is another row's");
  offsets[7] = 11;
  unknown.put("d2t", DType::kI64, {1000}, offsets);
  EXPECT_ERROR(load(unknown), "row 7 would be of token 7 + 11, which is not in t2d");
  known[0] = 1;
  more.put("t2d", DType::kBool, {3100}, known);
  EXPECT_ERROR(load(more), "t2d has other tokens than d2t");
  type.add("d2t", {1000}, 1);
  EXPECT_ERROR(load(type), "tensor d2t is of type F32, not I64");
  eagle3_.config["draft_vocab_size"] = 999;
  EXPECT_ERROR(load(eagle3_), "tensor d2t has the shape [1000], not [999]");
}

TEST_F(LoadFeatureLayer, OtherTypesAreRefused) {
  eagle_.put("layers.0.self_attn.k_proj.weight", DType::kBF16, {16, 24},
             std::vector<std::uint16_t>(16 * 24));
  EXPECT_ERROR(load(eagle_), "k_proj.weight is of another type than those beside it");
}

}  // namespace
}  // namespace specdec
