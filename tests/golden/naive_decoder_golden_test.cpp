// Stage 1 against the golden tensors of every prompt. Its --check holds it to all greedy steps and
// texts.
#include <algorithm>

#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "common/golden_folder.h"
#include "stages/01_naive_decoder/naive_llama.h"
#include "stages/programs/check/tensor_log.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

// A directory of golden/goldens/ with its model.
class NaiveDecoderGoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  NaiveDecoderGoldenTest()
      : directory_(golden_folder() / "goldens" / GetParam()),
        checkpoint_(golden_folder() / (is_embedded() ? "models" : "checkpoints") / GetParam()),
        model_(checkpoint_) {
    const fs::path manifest = directory_ / "manifest.json";
    const Json root = parse_json(read_text_file(manifest), manifest.string());
    for (const auto& [prompt, unused] : root.at("prompts").items()) prompts_.push_back(prompt);
    // Short ones first: all rows of them are stored, so more causes can be recognised.
    std::ranges::sort(prompts_, {}, [&](const std::string& prompt) {
      return root.at("prompts").at(prompt).at("tokens").get<int>();
    });
  }

  static bool is_embedded() { return GetParam() == "target" || GetParam() == "draft"; }

  void expect_agreement(const std::string& file, int tensors) const {
    const GoldenFile golden(directory_ / file);
    TensorLog log;
    model_.forward(golden.tokens(), [&](TensorKind kind, int layer, const Rows& rows) {
      log.add(kind, layer, rows.values, rows.width);
    });
    const ComparisonResult result = compare(golden, log.lookup(), {.checkpoint = &checkpoint_});
    if (result.agrees()) {
      EXPECT_EQ(result.agreed, tensors) << file;
    } else {
      ADD_FAILURE() << file << ": " << result.report;
    }
  }

  fs::path directory_;
  Checkpoint checkpoint_;
  NaiveLlama model_;
  std::vector<std::string> prompts_;
};

TEST_P(NaiveDecoderGoldenTest, EveryTensorOfEveryPromptAgrees) {
  ASSERT_FALSE(prompts_.empty());
  for (const std::string& prompt : prompts_) {
    if (HasFailure()) break;  // longer prompts would say the same
    expect_agreement(prompt + ".safetensors", 3 + 13 * model_.config().n_layers);
  }
}

TEST_P(NaiveDecoderGoldenTest, KeysAndValuesOfTheCacheAgree) {
  expect_agreement("short.cache.safetensors", 2 * model_.config().n_layers);
}

TEST_P(NaiveDecoderGoldenTest, TensorsAreSeenInTheOrderOfTheDataFlow) {
  const GoldenFile golden(directory_ / "short.safetensors");
  std::vector<std::string> want, seen;
  for (const GoldenTensor& tensor : golden.tensors()) want.push_back(tensor.name);
  model_.forward(golden.tokens(), [&](TensorKind kind, int layer, const Rows& /*rows*/) {
    seen.push_back(tensor_name(kind, layer));
  });
  EXPECT_EQ(seen, want);
}

// What the decode loop calls, against what the goldens prove: bit for bit the row that a pass over
// more tokens gives, so no token sees those after it.
TEST_P(NaiveDecoderGoldenTest, NextTokenLogitsAreARowOfForward) {
  const GoldenFile golden(directory_ / "short.safetensors");
  const Rows logits = model_.forward(golden.tokens());
  for (int length = 1; length <= logits.count; length++) {
    const auto prefix = golden.tokens().first(static_cast<std::size_t>(length));
    EXPECT_TRUE(std::ranges::equal(model_.next_token_logits(prefix), logits[length - 1])) << length;
  }
  EXPECT_EQ(model_.rows_computed(), logits.count + logits.count * (logits.count + 1) / 2);
}

// The small models have activations in float64 as well.
class NaiveDecoderFloat64Test : public NaiveDecoderGoldenTest {};

TEST_P(NaiveDecoderFloat64Test, EveryTensorAgrees) {
  expect_agreement("short.float64.safetensors", 3 + 13 * model_.config().n_layers);
}

class NaiveDecoderDeathTest : public NaiveDecoderGoldenTest {};

TEST_P(NaiveDecoderDeathTest, RefusesWhatItCannotCompute) {
  const LlamaConfig& config = model_.config();
  const std::vector<TokenId> too_many(static_cast<std::size_t>(config.max_seq_len) + 1, 0);
  EXPECT_DEATH(model_.forward(too_many), "tokens, not");
  EXPECT_DEATH(model_.forward({}), "tokens, not 0");
  const TokenId outside[] = {0, config.vocab_size};
  EXPECT_DEATH(model_.forward(outside), "an id below");
  const TokenId negative[] = {-1};
  EXPECT_DEATH(model_.next_token_logits(negative), "not -1");
}

const auto kName = [](const auto& test) { return test.param; };
const auto kSmall = ::testing::Values("all_kv_heads", "newer_spelling", "one_kv_head", "plain_rope",
                                      "sharded", "untied", "wide_heads");
INSTANTIATE_TEST_SUITE_P(Embedded, NaiveDecoderGoldenTest, ::testing::Values("target", "draft"),
                         kName);
INSTANTIATE_TEST_SUITE_P(Small, NaiveDecoderGoldenTest, kSmall, kName);
INSTANTIATE_TEST_SUITE_P(Small, NaiveDecoderFloat64Test, kSmall, kName);
INSTANTIATE_TEST_SUITE_P(Small, NaiveDecoderDeathTest, ::testing::Values("untied"), kName);

}  // namespace
}  // namespace specdec
