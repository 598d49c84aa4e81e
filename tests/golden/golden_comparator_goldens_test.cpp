// The goldens of the small random checkpoints, which transformers computed: plain loops agree with
// them, and mistakes are named in models of every shape.
#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "common/golden_folder.h"
#include "tests/test_support.h"
#include "tests/unit/stages/programs/comparator/golden_comparator_files.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A directory of golden/goldens/ and its model, which plain loops compute.
class RealGoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  RealGoldenTest()
      : directory_(golden_folder() / "goldens" / GetParam()),
        checkpoint_(golden_folder() / "checkpoints" / GetParam()) {}

  std::vector<fs::path> prompts() const {
    const fs::path manifest = directory_ / "manifest.json";
    const Json root = parse_json(read_text_file(manifest), manifest.string());
    std::vector<fs::path> files;
    for (const auto& [prompt, unused] : root.at("prompts").items()) {
      files.push_back(directory_ / (prompt + ".safetensors"));
    }
    return files;
  }
  ComparisonResult compared(const fs::path& path, const std::string& mistake) const {
    const GoldenFile golden(path);
    const std::vector<TokenId> tokens(golden.tokens().begin(), golden.tokens().end());
    const Dump dump(PlantedLlama<float>(checkpoint_, mistake, 0).forward(tokens));
    return compare(golden, dump.lookup(), {.checkpoint = &checkpoint_});
  }

  fs::path directory_;
  Checkpoint checkpoint_;
};

TEST_P(RealGoldenTest, PlainLoopsAgree) {
  ASSERT_FALSE(prompts().empty());
  for (const fs::path& path : prompts()) {
    const ComparisonResult result = compared(path, "");
    EXPECT_TRUE(result.agrees()) << result.report;
    EXPECT_EQ(result.agreed, 3 + 13 * checkpoint_.config().n_layers);
    const fs::path float64 = fs::path(path).replace_extension(".float64.safetensors");
    if (fs::exists(float64)) {
      EXPECT_TRUE(compared(float64, "").agrees());
    }
  }
}

TEST_P(RealGoldenTest, CachesAgree) {
  const fs::path path = directory_ / "short.cache.safetensors";
  const GoldenFile golden(path);
  EXPECT_GT(golden.tokens().size(), GoldenFile(directory_ / "short.safetensors").tokens().size());
  const ComparisonResult result = compared(path, "");
  EXPECT_TRUE(result.agrees()) << result.report;
  EXPECT_EQ(result.agreed, 2 * checkpoint_.config().n_layers);
  EXPECT_EQ(compared(path, "adjacent pairs").tensor, "layers.0.k_rope");
}

TEST_P(RealGoldenTest, MistakesAreNamed) {
  const std::vector<std::pair<std::string, std::string>> planted{
      {"attn norm: no weight", "weight is missing"},
      {"adjacent pairs", "adjacent"},
      {"position + 1", "one too high"},
      {"no 1/sqrt", "not divided by sqrt(head_dim)"},
      {"attention without residual", "the residual is not added"},
      {"gate and up swapped", "gate and up are swapped"},
      {"GELU", "GELU (by erf)"},
      {"mlp not added", "mlp_out is not added"},
      {"final norm skipped before the head", "the final norm is skipped"}};
  for (const fs::path& path : prompts()) {
    for (const auto& [mistake, words] : planted) {
      if (mistake == "no 1/sqrt" && !GoldenFile(path).has_all_rows()) continue;
      const ComparisonResult result = compared(path, mistake);
      EXPECT_THAT(result.cause, HasSubstr(words)) << mistake << ": " << result.report;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, RealGoldenTest,
                         ::testing::Values("all_kv_heads", "newer_spelling", "one_kv_head",
                                           "plain_rope", "sharded", "untied", "wide_heads"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace specdec
