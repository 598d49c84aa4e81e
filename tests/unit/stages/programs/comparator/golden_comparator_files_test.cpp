// Golden files that are worthless are refused; names have their place; greedy steps are judged.
#include "tests/unit/stages/programs/comparator/golden_comparator_files.h"

#include <limits>

#include "common/base/json_value.h"
#include "stages/programs/comparator/data_flow.h"
#include "stages/programs/comparator/golden_file.h"
#include "stages/programs/comparator/greedy_steps.h"
#include "tests/special_numbers.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DataFlowTest, NamesStandInTheOrderOfComputation) {
  const std::vector<std::string> in_order{"embedding",
                                          "layers.0.attn_norm",
                                          "layers.0.q",
                                          "layers.0.k",
                                          "layers.0.v",
                                          "layers.0.q_rope",
                                          "layers.0.k_rope",
                                          "layers.0.attn_out",
                                          "layers.0.attn_residual",
                                          "layers.0.mlp_norm",
                                          "layers.0.gate",
                                          "layers.0.up",
                                          "layers.0.mlp_out",
                                          "layers.0.residual",
                                          "layers.1.attn_norm",
                                          "layers.2.residual",
                                          "layers.10.q",
                                          "final_norm",
                                          "logits"};
  for (std::size_t i = 1; i < in_order.size(); i++) {
    EXPECT_LT(*parse_tensor_name(in_order[i - 1]), *parse_tensor_name(in_order[i])) << in_order[i];
  }
  EXPECT_EQ(parse_tensor_name("layers.10.q")->layer, 10);
  EXPECT_EQ(parse_tensor_name("logits")->layer, -1);
}

TEST(DataFlowTest, OtherNamesHaveNoPlace) {
  for (const char* name :
       {"", "q", "layers.0", "layers.0.", "layers..q", "layers.-1.q", "layers.0.qq",
        "layers.0.logits", "layers.0x.q", "Layers.0.q", "layers.99999999999.q"}) {
    EXPECT_FALSE(parse_tensor_name(name)) << name;
  }
}

class GoldenFileTest : public ::testing::Test {
 protected:
  GoldenFileTest() {
    write_comparator_checkpoint(directory_.path());
    checkpoint_.emplace(directory_.path());
    builder_.emplace(*checkpoint_, std::vector<TokenId>{1, 2, 3}, 2);
  }
  GoldenFile written() { return GoldenFile(builder_->write(directory_.path())); }

  TemporaryDirectory directory_;
  std::optional<Checkpoint> checkpoint_;
  std::optional<GoldenBuilder> builder_;
};

TEST_F(GoldenFileTest, HoldsWhatWasWritten) {
  const GoldenFile golden = written();
  EXPECT_THAT(golden.tokens(), ElementsAre(1, 2, 3));
  EXPECT_EQ(golden.first_row(), 1);
  EXPECT_FALSE(golden.has_all_rows());
  EXPECT_EQ(golden.tensors().size(), 42u);
  EXPECT_EQ(golden.tensors()[0].name, "embedding");
  EXPECT_EQ(golden.find(*parse_tensor_name("layers.1.q"))->name, "layers.1.q");
  EXPECT_EQ(golden.find(*parse_tensor_name("layers.7.q")), nullptr);
  EXPECT_EQ(golden.shape().inv_freq.size(), 4u);
  EXPECT_EQ(GoldenFile(builder_->write(directory_.path(), ".float64")).tensors().size(), 42u);
}

TEST_F(GoldenFileTest, ColumnsOfTheLogits) {
  builder_->logits_ids = {4, 49};
  EXPECT_THAT(written().logits_ids(), ElementsAre(4, 49));
  EXPECT_EQ(written().tensors().back().view.shape[1], 2);
  builder_->computed.values.at("logits").resize(3 * 60);  // so that there is a column 50
  builder_->logits_ids = {4, 50};
  EXPECT_ERROR(written(), "logits_ids has the token 50; the vocabulary ends at 49");
}

TEST_F(GoldenFileTest, Caches) {
  const std::vector<float> right = builder_->computed.values["layers.0.v"];
  const TensorLookup lookup = [&](const std::string&) { return float_tensor(right, 3, 16); };
  builder_->computed.values = {{"layers.0.v", right}};
  builder_->rows = {0, 1, 2};
  const GoldenFile golden(builder_->write(directory_.path(), ".cache"));
  EXPECT_TRUE(golden.has_all_rows());
  EXPECT_TRUE(compare(golden, lookup).agrees());
  builder_->computed.at("layers.0.v", 2, 7) += 0.1F;
  const GoldenFile other(builder_->write(directory_.path(), ".cache"));
  EXPECT_EQ(compare(other, lookup).token, 2);
}

TEST_F(GoldenFileTest, NotFiniteIsAnError) {
  for (const float wrong : {kNan, kInfinity}) {
    builder_->computed.at("layers.1.q", 2, 5) = static_cast<float>(wrong);
    EXPECT_ERROR(written(), "at row 1, index 5: a golden tensor must be finite");
  }
}

TEST_F(GoldenFileTest, BadManifests) {
  const Json good = builder_->manifest;
  const auto message = [&](auto&& change) {
    builder_->manifest = good;
    change(builder_->manifest);
    return error_message([&] { written(); });
  };
  using Json = Json;
  EXPECT_EQ(message([](Json&) {}), "");
  EXPECT_THAT(message([](Json& m) { m.erase("prompts"); }), HasSubstr("prompts"));
  EXPECT_THAT(message([](Json& m) { m["prompts"].erase("short"); }), HasSubstr("short"));
  EXPECT_THAT(message([](Json& m) { m["prompts"]["short"].erase("norms"); }), HasSubstr("norms"));
  EXPECT_THAT(message([](Json& m) { m["prompts"]["short"]["norms"].erase("final_norm"); }),
              HasSubstr("final_norm"));
  EXPECT_THAT(message([](Json& m) { m["tolerances"].erase("logits"); }), HasSubstr("logits"));
  EXPECT_THAT(message([](Json& m) { m["tolerances"]["logits"] = 0; }), HasSubstr("above 0"));
  EXPECT_THAT(message([](Json& m) { m["shape"].erase("head_dim"); }), HasSubstr("head_dim"));
  EXPECT_THAT(message([](Json& m) { m["shape"]["n_kv_heads"] = 4; }), HasSubstr("contradict"));
  EXPECT_THAT(message([](Json& m) { m["shape"]["n_kv_heads"] = 0; }), HasSubstr("contradict"));
  EXPECT_THAT(message([](Json& m) { m["inv_freq"] = {1, 2}; }), HasSubstr("contradict"));
  EXPECT_THAT(message([](Json& m) { m["inv_freq"] = {"1"}; }), HasSubstr("inv_freq"));
  EXPECT_THAT(message([](Json& m) { m["inv_freq"] = 7; }), HasSubstr("a list"));
}

TEST_F(GoldenFileTest, BadTensors) {
  for (const std::vector<std::int32_t>& rows :
       {std::vector{2, 1}, std::vector{0, 1}, std::vector{2, 3}, std::vector{0, 2},
        std::vector{-1, 0, 1, 2}}) {
    builder_->rows = rows;
    builder_->computed.height = rows.size();
    builder_->computed.values = {{"embedding", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}};
    EXPECT_ERROR(written(), "rows must be the last ones of 3 tokens");
  }
  builder_->rows.clear();
  EXPECT_ERROR(written(), "rows must be a list of I32, not empty");
  builder_->rows = {1, 2};
  EXPECT_ERROR(written(), "embedding must be of type F32 or F64 and of shape [2, 48]");
  builder_->computed.values = {{"attn", {1, 2, 3, 4}}};
  EXPECT_ERROR(written(), "attn is not the name of a golden tensor");
  builder_->computed.values.clear();
  EXPECT_ERROR(written(), "holds no golden tensor");
  EXPECT_ERROR(GoldenFile(builder_->write(directory_.path(), ".steps")), "short.steps");
}

TEST(GreedyStepsTest, ANearTieIsWithinTwiceTheTolerance) {
  const double limit = 2 * 1e-5 * 8.0;
  const auto verdict = [](double margin) { return judge_step(4, {5, margin, 8.0}, 1e-5); };
  EXPECT_EQ(judge_step(5, {5, 0.0, 8.0}, 1e-5), StepVerdict::kEqual);
  EXPECT_EQ(judge_step(5, {5, 3.0, 8.0}, 1e-5), StepVerdict::kEqual);
  EXPECT_EQ(verdict(limit), StepVerdict::kNearTie);
  EXPECT_EQ(verdict(limit * 0.999), StepVerdict::kNearTie);
  EXPECT_EQ(verdict(limit * 1.001), StepVerdict::kWrong);
  EXPECT_EQ(verdict(kNan), StepVerdict::kWrong);
  EXPECT_EQ(judge_step(4, {5, 1e-9, kNan}, 1e-5), StepVerdict::kWrong);
}

TEST(GreedyStepsTest, CountsNearTiesAndStopsAtTheFirstWrongStep) {
  const std::vector<GreedyStep> want{{5, 1, 8}, {6, 1e-6, 8}, {7, 0.5, 8}, {8, 1, 8}};
  const auto compared = [&](const std::vector<TokenId>& got) {
    return compare_greedy(got, want, 1e-5);
  };
  EXPECT_TRUE(compared({5, 6, 7, 8}).agrees());
  EXPECT_EQ(compared({5, 6, 7, 8}).report, "4 greedy steps agree; near-ties: 0");
  const GreedyComparison tie = compared({5, 9, 7, 8});
  EXPECT_TRUE(tie.agrees());
  EXPECT_THAT(tie.near_ties, ElementsAre(1));
  EXPECT_THAT(tie.report, HasSubstr("near-ties: 1"));
  const GreedyComparison wrong = compared({5, 9, 3, 1});
  EXPECT_FALSE(wrong.agrees());
  EXPECT_EQ(wrong.wrong_step, 2);
  EXPECT_EQ(wrong.compared, 3);
  EXPECT_THAT(wrong.report, HasSubstr("step 2: got token 3, want 7; the margin 0.5 is above"));
  EXPECT_THAT(wrong.report, HasSubstr("near-ties: 1"));
}

TEST(GreedyStepsTest, ListsOfOneLength) {
  const Json json{{"tokens", {1, 2}}, {"margins", {1}}, {"max_abs", {3, 4}}};
  EXPECT_ERROR(read_greedy_steps(JsonObject(json, "x"), 5), "2 tokens, 1 margins and 2 max_abs");
}

TEST(GreedyStepsTest, TheLengthCounts) {
  const std::vector<GreedyStep> want{{5, 1, 8}, {6, 1, 8}};
  EXPECT_EQ(compare_greedy(std::vector<TokenId>{5}, want, 1e-5).wrong_step, 1);
  EXPECT_EQ(compare_greedy(std::vector<TokenId>{5, 6, 7}, want, 1e-5).wrong_step, 2);
  EXPECT_EQ(compare_greedy(std::vector<TokenId>{}, want, 1e-5).report,
            "0 steps, want 2; near-ties: 0");
}

}  // namespace
}  // namespace specdec
