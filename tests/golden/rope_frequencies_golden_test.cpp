// RoPE's frequencies against those that transformers computed, to the bit.

#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "common/golden_folder.h"
#include "common/rope_frequencies.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

class RopeFrequenciesGoldenTest : public ::testing::TestWithParam<std::string> {};

TEST_P(RopeFrequenciesGoldenTest, EqualTransformersToTheBit) {
  const fs::path golden = golden_folder();
  const std::string name = GetParam().substr(GetParam().find('/') + 1);
  const std::string config_file = (golden / GetParam() / "config.json").string();
  const LlamaConfig config = parse_llama_config(read_text_file(config_file), config_file);
  const std::string manifest_file = (golden / "goldens" / name / "manifest.json").string();
  const Json manifest = parse_json(read_text_file(manifest_file), manifest_file);
  EXPECT_EQ(rope_frequencies(config.head_dim, config.rope_theta, config.rope_scaling),
            manifest.at("inv_freq").get<std::vector<float>>());
}

INSTANTIATE_TEST_SUITE_P(Models, RopeFrequenciesGoldenTest,
                         ::testing::Values("models/target", "models/draft",
                                           "checkpoints/all_kv_heads", "checkpoints/newer_spelling",
                                           "checkpoints/one_kv_head", "checkpoints/plain_rope",
                                           "checkpoints/sharded", "checkpoints/untied",
                                           "checkpoints/wide_heads"),
                         [](const auto& test) {
                           return test.param.substr(test.param.find('/') + 1);
                         });

// Published figures for the real models (double precision): which pairs are kept, blended, divided.
TEST(RopeFrequenciesTest, TheRealModels) {
  const RopeScaling scaling{32, 1, 4, 8192};
  const auto plain = rope_frequencies(64, 500000, {});
  const auto frequencies = rope_frequencies(64, 500000, scaling);
  ASSERT_EQ(frequencies.size(), 32u);
  for (std::size_t i = 0; i <= 14; i++) EXPECT_EQ(frequencies[i], plain[i]);
  EXPECT_NEAR(frequencies[15], 0.00129054793, 1e-9);
  EXPECT_NEAR(frequencies[16], 0.000429556797, 1e-9);
  EXPECT_NEAR(frequencies[17], 9.7082878e-05, 1e-10);
  for (std::size_t i = 18; i < 32; i++) EXPECT_EQ(frequencies[i], plain[i] / 32);
  EXPECT_NEAR(frequencies[31], 9.41830673e-08, 1e-13);
  EXPECT_NEAR(rope_frequencies(128, 500000, scaling)[29], 0.002118407, 1e-8);
}

}  // namespace
}  // namespace specdec
