// Stage 1 against all golden files: every tensor of every prompt, and every greedy step. The golden
// tokens are fed whatever the model would choose itself (teacher forcing), so that one pass over a
// prompt and its continuation gives the logits of all steps.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>

#include <fmt/format.h>

#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "stages/01_naive_decoder/naive_llama.h"
#include "stages/programs/comparator/comparator.h"
#include "stages/programs/comparator/greedy_steps.h"
#include "stages/programs/comparator/matrix.h"
#include "stages/programs/comparator/number_lists.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

// The tensors of a pass by their golden names, and the names in the order of computation.
struct Trace {
  Trace(const NaiveLlama& model, std::span<const TokenId> tokens) {
    model.forward(tokens, [&](TensorKind kind, int layer, const Rows& rows) {
      const std::string prefix = layer < 0 ? "" : fmt::format("layers.{}.", layer);
      names.push_back(prefix + std::string(tensor_kind_name(kind)));
      tensors.insert_or_assign(names.back(), rows);
    });
  }

  TensorLookup lookup() const {
    return [this](const std::string& name) -> std::optional<TensorView> {
      const auto found = tensors.find(name);
      if (found == tensors.end()) return std::nullopt;
      return float_tensor(found->second.values, found->second.count, found->second.width);
    };
  }

  std::vector<std::string> names;
  std::map<std::string, Rows> tensors;
};

// The greedy continuation of a prompt, as transformers computed it.
struct Continuation {
  std::vector<TokenId> prompt;
  std::vector<GreedyStep> steps;
};

// A directory of golden/goldens/ with its model.
class NaiveDecoderGoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  NaiveDecoderGoldenTest()
      : directory_(fs::path(SPECDEC_GOLDEN_DIR) / "goldens" / GetParam()),
        checkpoint_(fs::path(SPECDEC_GOLDEN_DIR) / (is_embedded() ? "models" : "checkpoints") /
                    GetParam()),
        model_(checkpoint_) {
    const fs::path manifest = directory_ / "manifest.json";
    const Json root = parse_json(read_text_file(manifest), manifest.string());
    for (const auto& [prompt, unused] : root.at("prompts").items()) prompts_.push_back(prompt);
    // Short ones first: all rows of them are stored, so more causes can be recognised.
    std::ranges::sort(prompts_, {}, [&](const std::string& prompt) {
      return root.at("prompts").at(prompt).at("tokens").get<int>();
    });
    logits_tolerance_ = root.at("tolerances").at("logits");
  }

  static bool is_embedded() { return GetParam() == "target" || GetParam() == "draft"; }

  void expect_agreement(const std::string& file, int tensors) const {
    const GoldenFile golden(directory_ / file);
    const Trace trace(model_, golden.tokens());
    const ComparisonResult result = compare(golden, trace.lookup(), {.checkpoint = &checkpoint_});
    if (result.agrees()) {
      EXPECT_EQ(result.agreed, tensors) << file;
    } else {
      ADD_FAILURE() << file << ": " << result.report;
    }
  }

  // The logits from which each step's token is chosen, [steps, vocab_size].
  Matrix step_logits(const Continuation& golden) const {
    std::vector<TokenId> tokens = golden.prompt;
    for (const GreedyStep& step : golden.steps) tokens.push_back(step.token);
    tokens.pop_back();
    const Rows logits = model_.forward(tokens);
    Matrix result(golden.steps.size(), static_cast<std::size_t>(logits.width));
    const auto first = static_cast<std::ptrdiff_t>(logits.values.size() - result.values.size());
    std::copy(logits.values.begin() + first, logits.values.end(), result.values.begin());
    return result;
  }

  void expect_tokens(const Matrix& logits, std::span<const GreedyStep> steps) const {
    std::vector<TokenId> chosen;
    for (std::size_t step = 0; step < logits.rows; step++) {
      const std::span<const double> row = logits.row(step);
      chosen.push_back(static_cast<TokenId>(std::ranges::max_element(row) - row.begin()));
    }
    EXPECT_EQ(compare_greedy(chosen, steps, logits_tolerance_).report,
              fmt::format("{} greedy steps agree; near-ties: 0", steps.size()));
  }

  void expect_logits(const Matrix& logits, const SafetensorsFile& file) const;

  fs::path directory_;
  Checkpoint checkpoint_;
  NaiveLlama model_;
  std::vector<std::string> prompts_;
  double logits_tolerance_ = 0;
};

double norm(std::span<const double> values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

// The numbers of an I32 tensor of any shape.
std::vector<std::int32_t> integers(const TensorView& view) {
  EXPECT_EQ(view.dtype, DType::kI32);
  std::vector<std::int32_t> values(view.bytes.size() / sizeof(std::int32_t));
  std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
  return values;
}

// Of each step the file has the norm of its logits and the 16 largest ones, of some all of them.
void NaiveDecoderGoldenTest::expect_logits(const Matrix& logits,
                                           const SafetensorsFile& file) const {
  const std::vector<double> norms = read_numbers(file, "norms");
  const Matrix top_logits = to_matrix(file.tensor("top_logits"));
  const std::vector<std::int32_t> top_ids = integers(file.tensor("top_ids"));
  ASSERT_EQ(norms.size(), logits.rows);
  ASSERT_EQ(top_logits.rows, logits.rows);
  ASSERT_EQ(top_ids.size(), top_logits.values.size());
  for (std::size_t step = 0; step < logits.rows; step++) {
    const std::span<const double> row = logits.row(step);
    EXPECT_LE(std::abs(norm(row) - norms[step]), logits_tolerance_ * norms[step]) << step;
    std::vector<double> differences;
    for (std::size_t i = 0; i < top_logits.cols; i++) {
      const auto id = static_cast<std::size_t>(top_ids[step * top_logits.cols + i]);
      differences.push_back(row[id] - top_logits.row(step)[i]);
    }
    EXPECT_LE(norm(differences), logits_tolerance_ * norms[step]) << step;
  }
  const std::vector<std::int32_t> full_steps = read_integers(file, "full_steps");
  const Matrix full_logits = to_matrix(file.tensor("full_logits"));
  ASSERT_EQ(full_logits.rows, full_steps.size());
  for (std::size_t i = 0; i < full_steps.size(); i++) {
    Matrix got(1, logits.cols);
    Matrix want(1, logits.cols);
    std::ranges::copy(logits.row(static_cast<std::size_t>(full_steps[i])), got.values.begin());
    std::ranges::copy(full_logits.row(i), want.values.begin());
    const std::size_t row[] = {0};
    EXPECT_LE(relative_error(got, want, row), logits_tolerance_) << full_steps[i];
  }
}

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
  std::vector<std::string> names;
  for (const GoldenTensor& tensor : golden.tensors()) names.push_back(tensor.name);
  EXPECT_EQ(Trace(model_, golden.tokens()).names, names);
}

TEST_P(NaiveDecoderGoldenTest, EveryGreedyStepAgrees) {
  for (const std::string& prompt : prompts_) {
    SCOPED_TRACE(prompt);
    const SafetensorsFile file(directory_ / (prompt + ".steps.safetensors"));
    const Continuation golden{read_integers(file, "token_ids"),
                              read_greedy_steps(file, model_.config().vocab_size)};
    ASSERT_EQ(golden.steps.size(), 64u);
    const Matrix logits = step_logits(golden);
    expect_tokens(logits, golden.steps);
    expect_logits(logits, file);
  }
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

// All but the draft have texts: all lines of the small models, every eighth of the target's 64, as
// sanitizers make plain loops slow.
class NaiveDecoderTextTest : public NaiveDecoderGoldenTest {};

TEST_P(NaiveDecoderTextTest, GreedyTextsAgree) {
  const fs::path path = directory_ / "greedy.jsonl";
  std::ifstream lines(path);
  const int step = is_embedded() ? 8 : 1;
  int number = 0;
  int checked = 0;
  for (std::string line; std::getline(lines, line); number++) {
    if (number % step != 0) continue;
    SCOPED_TRACE(fmt::format("line {}", number + 1));
    const Json root = parse_json(line, path.string());
    const JsonObject fields(root, path.string());
    const Continuation golden{read_integers(fields, "prompt_ids"),
                              read_greedy_steps(fields, model_.config().vocab_size)};
    expect_tokens(step_logits(golden), golden.steps);
    checked++;
  }
  EXPECT_GE(checked, 6);
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
INSTANTIATE_TEST_SUITE_P(Embedded, NaiveDecoderTextTest, ::testing::Values("target"), kName);
INSTANTIATE_TEST_SUITE_P(Small, NaiveDecoderTextTest, kSmall, kName);
INSTANTIATE_TEST_SUITE_P(Small, NaiveDecoderDeathTest, ::testing::Values("untied"), kName);

}  // namespace
}  // namespace specdec
