// The walk over golden tensors: what agrees, what does not, where, and what the report says.
#include <bit>
#include <limits>

#include "common/base/json_value.h"
#include "stages/programs/comparator/comparator.h"
#include "tests/special_numbers.h"
#include "tests/test_support.h"
#include "tests/unit/stages/programs/comparator/golden_comparator_files.h"

namespace specdec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Status = ComparisonStatus;

constexpr int kTensors = 1 + 3 * 13 + 2;
const std::vector<TokenId> kPrompt{1, 7, 33, 12, 48, 9, 20, 5, 41, 16};

class ComparatorTest : public ::testing::Test {
 protected:
  ComparatorTest() {
    write_comparator_checkpoint(directory_.path());
    checkpoint_.emplace(directory_.path());
    builder_.emplace(*checkpoint_, kPrompt, kPrompt.size());
    dump_.emplace(PlantedLlama<float>(*checkpoint_, "").forward(kPrompt));
  }

  GoldenFile golden() { return GoldenFile(builder_->write(directory_.path())); }
  ComparisonResult compared() {
    return compare(golden(), dump_->lookup(), {.checkpoint = &*checkpoint_});
  }
  std::string cause() { return compared().cause; }
  // Replaces a computed tensor: row t becomes f(t)'s golden row.
  template <typename Source>
  void move_rows(const std::string& name, Source&& source) {
    for (std::size_t t = 0; t < kPrompt.size(); t++) {
      std::ranges::copy(builder_->computed.row(name, source(t)), dump_->row(name, t).begin());
    }
  }

  TemporaryDirectory directory_;
  std::optional<Checkpoint> checkpoint_;
  std::optional<GoldenBuilder> builder_;
  std::optional<Dump> dump_;
};

TEST_F(ComparatorTest, ARightRunAgrees) {
  const ComparisonResult result = compared();
  EXPECT_TRUE(result.agrees()) << result.report;
  EXPECT_EQ(result.agreed, kTensors);
  EXPECT_THAT(result.report, HasSubstr("42 tensors of "));
  EXPECT_THAT(result.report, Not(HasSubstr("NOT CHECKED")));
  EXPECT_EQ(result.token, -1);
  EXPECT_EQ(result.error, 0);
}

TEST_F(ComparatorTest, TheToleranceIsTheLimit) {
  const std::string name = "layers.2.gate";
  builder_->manifest["tolerances"][name] = 1e-3;
  for (const auto& [times, agrees] : {std::pair(0.999, true), std::pair(1.001, false)}) {
    for (std::size_t i = 0; i < dump_->values[name].size(); i++) {
      dump_->values[name][i] =
          static_cast<float>(builder_->computed.values[name][i] * (1 + times * 1e-3));
    }
    const ComparisonResult result = compared();
    EXPECT_EQ(result.agrees(), agrees) << result.report;
    if (!agrees) {
      EXPECT_NEAR(result.error, 1.001e-3, 1e-6);
    }
  }
}

TEST_F(ComparatorTest, TheToleranceCanBeWidened) {
  for (float& value : dump_->values["layers.2.gate"]) value *= 1.005F;
  EXPECT_FALSE(compare(golden(), dump_->lookup(), {.least_tolerance = 4e-3}).agrees());
  EXPECT_TRUE(compare(golden(), dump_->lookup(), {.least_tolerance = 1e-2}).agrees());
}

TEST_F(ComparatorTest, NumbersOfTheFirstDifference) {
  dump_->at("layers.1.v", 6, 11) += 0.5F;
  dump_->at("layers.1.v", 6, 3) += 1e-7F;      // rounding: not the first difference
  dump_->at("layers.1.v", 8, 2) += 0.5F;       // a later token
  dump_->at("layers.1.k_rope", 0, 0) += 0.5F;  // downstream
  const ComparisonResult result = compared();
  EXPECT_EQ(result.status, Status::kDiffers);
  EXPECT_EQ(result.tensor, "layers.1.v");
  EXPECT_EQ(result.layer, 1);
  EXPECT_EQ(result.token, 6);
  EXPECT_EQ(result.index, 11);
  EXPECT_EQ(result.head, 1);
  EXPECT_EQ(result.dim, 3);
  EXPECT_EQ(result.got, dump_->at("layers.1.v", 6, 11));
  EXPECT_EQ(result.want, builder_->computed.at("layers.1.v", 6, 11));
  EXPECT_EQ(result.agreed, 1 + 13 + 3);
  EXPECT_EQ(result.tolerance, 1e-5);
  EXPECT_GT(result.error, 0.01);
  EXPECT_THAT(result.report, HasSubstr("token 6, index 11 (head 1, dim 3)"));
  EXPECT_THAT(result.report, HasSubstr("2 of 10 tokens exceed it"));
  EXPECT_THAT(result.report,
              HasSubstr("everything upstream agrees: 17 tensors, the last one layers.1.k"));
  EXPECT_EQ(result.cause, "");
  EXPECT_THAT(result.report, HasSubstr("no known mistake gives these values; want: attn_norm times "
                                       "v_proj"));
}

TEST_F(ComparatorTest, NanNeverPassesWhereverItIs) {
  const GoldenFile file = golden();
  for (const GoldenTensor& tensor : file.tensors()) {
    const Dump before = *dump_;
    dump_->at(tensor.name, 3, 7) = kNan;
    const ComparisonResult result = compared();
    EXPECT_EQ(result.status, Status::kDiffers) << tensor.name;
    EXPECT_EQ(result.tensor, tensor.name);
    EXPECT_EQ(result.token, 3);
    EXPECT_EQ(result.index, 7);
    EXPECT_THAT(result.report, HasSubstr("token 3 is NaN: memory that was never written"));
    dump_ = before;
  }
}

TEST_F(ComparatorTest, NanAndInfinity) {
  std::ranges::fill(dump_->row("layers.0.up", 4), kNan);
  dump_->at("layers.0.up", 9, 0) = kNan;
  EXPECT_THAT(cause(), HasSubstr("tokens 4 and 9 are NaN"));
  for (std::size_t t = 4; t < 10; t++) dump_->at("layers.0.up", t, 0) = kNan;
  EXPECT_THAT(cause(), HasSubstr("tokens 4, 5, 6, 7 and 2 more are NaN"));
  for (const float infinity : {kInfinity, -kInfinity}) {
    dump_->at("layers.0.gate", 2, 5) = infinity;
    const ComparisonResult result = compared();
    EXPECT_EQ(result.tensor, "layers.0.gate");
    EXPECT_EQ(result.got, infinity);
    EXPECT_THAT(result.cause, HasSubstr("token 2 holds infinity"));
  }
  dump_->at("layers.0.attn_out", 0, 3) = kNan;
  EXPECT_THAT(cause(), HasSubstr("does the mask hide token 0 from itself?"));
}

TEST_F(ComparatorTest, Zeros) {
  std::ranges::fill(dump_->values["final_norm"], 0.0F);
  EXPECT_THAT(cause(), HasSubstr("everything is zero"));
  std::ranges::fill(dump_->row("layers.2.q", 8), 0.0F);
  std::ranges::fill(dump_->row("layers.2.q", 9), 0.0F);
  EXPECT_THAT(cause(), HasSubstr("tokens 8 and 9 are all zero"));
}

TEST_F(ComparatorTest, RowsInTheWrongPlace) {
  std::swap_ranges(dump_->row("logits", 2).begin(), dump_->row("logits", 2).end(),
                   dump_->row("logits", 7).begin());
  const ComparisonResult result = compared();
  EXPECT_EQ(result.token, 2);
  EXPECT_EQ(result.cause, "the rows of tokens 2 and 7 are swapped");
  std::ranges::copy(dump_->row("layers.1.k", 1), dump_->row("layers.1.k", 6).begin());
  EXPECT_THAT(cause(), HasSubstr("token 6 holds the values of token 1"));
  std::ranges::copy(dump_->row("layers.0.k", 1), dump_->row("layers.0.k", 6).begin());
  std::ranges::copy(dump_->row("layers.0.k", 1), dump_->row("layers.0.k", 8).begin());
  EXPECT_THAT(cause(), HasSubstr("tokens 6 and 8 hold the values of token 1"));
}

TEST_F(ComparatorTest, AllRowsInTheWrongPlace) {
  const std::size_t last = kPrompt.size() - 1;
  move_rows("logits", [](std::size_t t) { return t == 0 ? 0 : t - 1; });
  EXPECT_THAT(cause(), HasSubstr("of the token before it"));
  EXPECT_EQ(compared().token, 1);
  move_rows("logits", [&](std::size_t t) { return std::min(t + 1, last); });
  EXPECT_THAT(cause(), HasSubstr("of the next token"));
  move_rows("logits", [&](std::size_t) { return last; });
  EXPECT_THAT(cause(), HasSubstr("tokens 0, 1, 2, 3 and 5 more hold the values of token 9"));
  move_rows("logits", [&](std::size_t) { return 0; });
  EXPECT_THAT(cause(), HasSubstr("tokens 1, 2, 3, 4 and 5 more hold the values of token 0"));
  move_rows("logits", [&](std::size_t t) { return last - t; });
  EXPECT_THAT(cause(), HasSubstr("in a different order: token 0 holds the values of token 9"));
}

TEST_F(ComparatorTest, AllValuesWrongInOneWay) {
  std::vector<float>& values = dump_->values["logits"];
  const std::vector<float> right = values;
  const auto change = [&](auto&& function) {
    std::ranges::transform(right, values.begin(), function);
    return cause();
  };
  EXPECT_THAT(change([](float x) { return -x; }), HasSubstr("every value is -1 times"));
  EXPECT_THAT(change([](float x) { return 0.125F * x; }), HasSubstr("0.125 times"));
  EXPECT_THAT(change([](float x) {
                const auto bits = std::bit_cast<std::uint32_t>(x) + 0x8000;
                return std::bit_cast<float>(bits & 0xFFFF0000);
              }),
              HasSubstr("rounded to bf16"));
  EXPECT_THAT(change([](float x) {
                const auto bits = std::bit_cast<std::uint32_t>(x) + 0x1000;
                return std::bit_cast<float>(bits & 0xFFFFE000);
              }),
              HasSubstr("rounded to float16"));
  EXPECT_EQ(change([i = 0](float x) mutable { return i++ % 3 == 0 ? x * 1.25F : x; }), "");
}

TEST_F(ComparatorTest, SmallErrorsLookLikeArithmetic) {
  for (const auto& [size, is_small] : {std::pair(1e-4F, true), std::pair(1e-2F, false)}) {
    for (std::size_t i = 0; i < dump_->values["layers.1.k"].size(); i++) {
      dump_->values["layers.1.k"][i] =
          builder_->computed.values["layers.1.k"][i] * (1 + (i % 2 == 0 ? size : -size));
    }
    EXPECT_EQ(cause().starts_with("such a small error looks like arithmetic"), is_small);
  }
}

TEST_F(ComparatorTest, AcceptsOnlyFiniteErrors) {
  EXPECT_TRUE(within(1e-5, 1e-5));
  EXPECT_TRUE(within(0, 0));
  EXPECT_FALSE(within(1.0001e-5, 1e-5));
  EXPECT_FALSE(within(kNan, 1));
  EXPECT_FALSE(within(1, kNan));
  EXPECT_FALSE(within(kInfinity, kInfinity));
}

TEST_F(ComparatorTest, ValuesOfAnotherTensor) {
  dump_->values["layers.2.mlp_out"] = dump_->values["layers.0.attn_norm"];
  EXPECT_THAT(cause(), HasSubstr("these are the values of layers.0.attn_norm"));
}

TEST_F(ComparatorTest, MissingTensors) {
  dump_->values.erase("layers.1.up");
  dump_->at("layers.1.mlp_out", 0, 0) += 1;  // downstream
  const ComparisonResult strict = compared();
  EXPECT_EQ(strict.status, Status::kMissing);
  EXPECT_EQ(strict.tensor, "layers.1.up");
  EXPECT_EQ(strict.layer, 1);
  EXPECT_THAT(strict.report, HasSubstr("layers.1.up is missing"));

  dump_->at("layers.1.mlp_out", 0, 0) -= 1;
  const ComparisonResult result = compare(golden(), dump_->lookup(), {.every_tensor = false});
  EXPECT_TRUE(result.agrees()) << result.report;
  EXPECT_EQ(result.agreed, kTensors - 1);
  EXPECT_THAT(result.not_checked, ElementsAre("layers.1.up"));
  EXPECT_THAT(result.report,
              HasSubstr("NOT CHECKED, because the program does not have them: layers.1.up"));
}

TEST_F(ComparatorTest, LogitsMustAlwaysBeThere) {
  const std::vector<float> logits = dump_->values["logits"];
  dump_->values = {{"embedding", dump_->values["embedding"]}};
  const auto result = compare(golden(), dump_->lookup(), {.every_tensor = false});
  EXPECT_EQ(result.status, Status::kMissing);
  EXPECT_EQ(result.tensor, "logits");
  dump_->values = {{"logits", logits}};
  dump_->at("logits", 4, 4) += 1;
  const auto differs = compare(golden(), dump_->lookup(), {.every_tensor = false});
  EXPECT_EQ(differs.status, Status::kDiffers);
  EXPECT_THAT(differs.report, HasSubstr("nothing upstream of it was compared; NOT CHECKED"));
}

TEST_F(ComparatorTest, WrongShapeAndType) {
  dump_->values["layers.0.k_rope"].resize(kPrompt.size() * 48);
  const ComparisonResult shape = compared();
  EXPECT_EQ(shape.status, Status::kWrongShape);
  EXPECT_EQ(shape.tensor, "layers.0.k_rope");
  EXPECT_THAT(shape.report, HasSubstr("has the shape [10, 48], want [10, 16]"));
  const Dump& dump = *dump_;
  const auto as_bf16 = [&](const std::string& name) -> std::optional<TensorView> {
    TensorView view = dump.view(name);
    if (name == "layers.0.q") view.dtype = DType::kBF16;
    return view;
  };
  const ComparisonResult type = compare(golden(), as_bf16);
  EXPECT_EQ(type.status, Status::kWrongType);
  EXPECT_THAT(type.report, HasSubstr("layers.0.q is of type BF16, want F32"));
}

TEST_F(ComparatorTest, ReadsDumps) {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, values] : dump_->values) tensors.push_back({name, dump_->view(name)});
  write_safetensors(directory_.path() / "dump.safetensors", tensors);
  const SafetensorsFile file(directory_.path() / "dump.safetensors");
  EXPECT_EQ(compare(golden(), lookup_in(file)).agreed, kTensors);
  EXPECT_FALSE(lookup_in(file)("layers.7.q"));
}

TEST_F(ComparatorTest, WithoutCheckpointFewerCausesAreKnown) {
  dump_.emplace(PlantedLlama<float>(*checkpoint_, "adjacent pairs").forward(kPrompt));
  EXPECT_THAT(compare(golden(), dump_->lookup()).cause, HasSubstr("adjacent"));
  dump_.emplace(PlantedLlama<float>(*checkpoint_, "GELU").forward(kPrompt));
  const ComparisonResult result = compare(golden(), dump_->lookup());
  EXPECT_EQ(result.cause, "");
  EXPECT_THAT(result.report, HasSubstr("more are known with the checkpoint"));
}

TEST_F(ComparatorTest, ADifferentModelIsRefused) {
  Json config = comparator_config();
  config["num_hidden_layers"] = 2;
  write_comparator_checkpoint(directory_.path() / "other", config);
  const Checkpoint other(directory_.path() / "other");
  EXPECT_ERROR(compare(golden(), dump_->lookup(), {.checkpoint = &other}),
               "belongs to a model of a different shape");
}

// A long prompt: four rows and the norms of all.
class LongPromptTest : public ComparatorTest {
 protected:
  LongPromptTest() { builder_.emplace(*checkpoint_, kPrompt, 4); }
};

TEST_F(LongPromptTest, StoredRowsAreCompared) {
  EXPECT_EQ(compared().agreed, kTensors) << compared().report;
  dump_->at("layers.1.up", 8, 5) += 1;
  const ComparisonResult result = compared();
  EXPECT_EQ(result.tensor, "layers.1.up");
  EXPECT_EQ(result.token, 8);
  EXPECT_EQ(result.index, 5);
  EXPECT_THAT(result.report, HasSubstr("1 of 4 tokens"));
}

TEST_F(LongPromptTest, TheNormWatchesTheOthers) {
  for (const float wrong : {2.0F, kNan, kInfinity}) {
    dump_->at("layers.1.up", 1, 5) = wrong;
    const ComparisonResult result = compared();
    EXPECT_EQ(result.status, Status::kDiffers);
    EXPECT_EQ(result.tensor, "layers.1.up");
    EXPECT_THAT(result.report, HasSubstr("in a token before 6: the norm over all 10 tokens"));
  }
}

TEST_F(LongPromptTest, SomeColumnsOfTheLogitsAreStored) {
  builder_->logits_ids = {3, 17, 40};
  EXPECT_EQ(compared().agreed, kTensors) << compared().report;
  dump_->at("logits", 8, 17) += 1;
  const ComparisonResult result = compared();
  EXPECT_EQ(result.tensor, "logits");
  EXPECT_EQ(result.token, 8);
  EXPECT_EQ(result.index, 17);
  EXPECT_THAT(result.report, HasSubstr("1 of 4 tokens"));
}

TEST_F(LongPromptTest, TheNormWatchesTheOtherColumns) {
  builder_.emplace(*checkpoint_, kPrompt, kPrompt.size());
  builder_->logits_ids = {3, 17, 40};
  dump_->at("logits", 8, 18) += 1;
  const ComparisonResult result = compared();
  EXPECT_EQ(result.status, Status::kDiffers);
  EXPECT_EQ(result.tensor, "logits");
  EXPECT_THAT(result.report, HasSubstr("or in a column that is not stored"));
}

TEST_F(LongPromptTest, CausesKnowThePositions) {
  dump_.emplace(PlantedLlama<float>(*checkpoint_, "position + 1").forward(kPrompt));
  EXPECT_THAT(cause(), HasSubstr("one too high"));
  dump_.emplace(PlantedLlama<float>(*checkpoint_, "positions begin again", 1, 6).forward(kPrompt));
  EXPECT_THAT(cause(), HasSubstr("begin at 0 again"));
  dump_.emplace(PlantedLlama<float>(*checkpoint_, "cache not read", 1, 6).forward(kPrompt));
  EXPECT_THAT(cause(), HasSubstr("is the cache read?"));
  dump_.emplace(PlantedLlama<float>(*checkpoint_, "no 1/sqrt").forward(kPrompt));
  EXPECT_EQ(cause(), "") << "needs the keys of all tokens";
  dump_.emplace(PlantedLlama<float>(*checkpoint_, "not causal").forward(kPrompt));
  EXPECT_EQ(compared().tensor, "layers.1.attn_out") << "by the norm: the last rows see all tokens";
}

}  // namespace
}  // namespace specdec
