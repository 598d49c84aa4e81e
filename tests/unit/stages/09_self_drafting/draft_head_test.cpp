// Files of heads: matrices as int8 with scales, and heads that say fewer tokens than the target.
#include "stages/09_self_drafting/draft_head.h"

#include <cmath>
#include <fstream>
#include <map>
#include <numeric>

#include "common/checkpoint/elements.h"
#include "common/checkpoint/safetensors_writer.h"
#include "tests/engine_fixture.h"
#include "tests/unit/stages/09_self_drafting/head_only.h"

namespace specdec {
namespace {

constexpr int kInputs = 6, kTokens = 20;

LlamaConfig target_config(bool tied = true) {
  LlamaConfig config;
  config.d_model = kInputs;
  config.vocab_size = kTokens;
  config.tied_head = tied;
  return config;
}

// A folder of heads, to be changed and read.
class HeadFileTest : public ::testing::Test {
 protected:
  template <typename T>
  void put(const std::string& name, DType type, std::vector<std::int64_t> shape,
           const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    tensors_[name] = {type, std::move(shape), {bytes.begin(), bytes.end()}};
  }
  // The tokens 3, 8, 13, 18.
  void put_tokens() {
    std::vector<std::uint8_t> known(kTokens);
    for (int token = 3; token < kTokens; token += 5) known[std::size_t(token)] = 1;
    put("d2t", DType::kI64, {4}, std::vector<std::int64_t>{3, 7, 11, 15});
    put("t2d", DType::kBool, {kTokens}, known);
  }
  HeadFile& file() {
    std::ofstream(folder_.path() / "config.json") << config_;
    std::vector<NamedTensor> named;
    for (const auto& [name, tensor] : tensors_) {
      named.push_back({name, {tensor.type, tensor.shape, tensor.bytes}});
    }
    write_safetensors(folder_.path() / "model.safetensors", named);
    file_ = std::make_unique<HeadFile>(folder_.path(), kInputs);
    return *file_;
  }
  DraftHead load(const LlamaConfig& runs = target_config()) {
    return load_draft_head(file(), "lm_head.weight", HeadOnly(target_config()), runs, *backend_);
  }
  std::vector<float> row(const WeightMatrix& of, int number) {
    const DeviceArray<float> out(*backend_, std::size_t(of.width()));
    backend_->embed(of, &number, matrix(out, 1, of.width()));
    return to_host(*backend_, matrix(out, 1, of.width()));
  }

  struct Tensor {
    DType type = DType::kF32;
    std::vector<std::int64_t> shape;
    std::vector<std::byte> bytes;
  };
  TemporaryDirectory folder_;
  std::unique_ptr<Backend> backend_ = make_plain_backend();
  std::unique_ptr<HeadFile> file_;
  std::map<std::string, Tensor> tensors_;
  std::string config_ = "{}";
};

class Int8Matrix : public HeadFileTest {
 protected:
  Int8Matrix() {
    put("x.weight", DType::kI8, {2, 3}, std::vector<std::int8_t>{-128, 0, 127, 1, -1, 100});
    put("x.weight_scale", DType::kF32, {2, 1}, std::vector<float>{0.5f, 0.0123f});
  }
};

TEST_F(Int8Matrix, IsItsRowsTimesTheirScalesAsBf16) {
  const TensorView view = file().take("x.weight", {2, 3});
  EXPECT_EQ(view.dtype, DType::kBF16);
  EXPECT_EQ(view.shape, (std::vector<std::int64_t>{2, 3}));
  // 127 / 2 has no more than eight bits; of the second row, the nearest numbers with eight bits.
  EXPECT_EQ(to_float32(view),
            (std::vector<float>{-64, 0, 63.5f, 0x1.94p-7f, -0x1.94p-7f, 0x1.3ap+0f}));
  file_->refuse_leftovers();
}

TEST_F(Int8Matrix, ScalesMayBeBf16) {
  put("x.weight_scale", DType::kBF16, {2, 1}, std::vector<std::uint16_t>{0x3f80, 0x4000});
  EXPECT_EQ(to_float32(file().take("x.weight", {2, 3})),
            (std::vector<float>{-128, 0, 127, 2, -2, 200}));
}

TEST_F(Int8Matrix, OtherScalesAreRefusedByName) {
  const auto take = [&] { file().take("x.weight", {2, 3}); };
  put("x.weight_scale", DType::kF32, {1, 2}, std::vector<float>{1, 1});
  EXPECT_ERROR(take(), "tensor x.weight_scale has the shape [1, 2], not [2, 1]");
  put("x.weight_scale", DType::kF16, {2, 1}, std::vector<std::uint16_t>{0, 0});
  EXPECT_ERROR(take(), "tensor x.weight_scale is of type F16; scales are F32 or BF16");
  put("x.weight_scale", DType::kF32, {2, 1}, std::vector<float>{1, NAN});
  EXPECT_ERROR(take(), "tensor x.weight_scale: the scale of row 1 is nan");
  put("x.weight_scale", DType::kF32, {2, 1}, std::vector<float>{INFINITY, 1});
  EXPECT_ERROR(take(), "tensor x.weight_scale: the scale of row 0 is inf");
  tensors_.erase("x.weight_scale");
  EXPECT_ERROR(take(), "tensor x.weight is of type I8, and its scales x.weight_scale are missing");
}

TEST_F(Int8Matrix, ScalesBelongToAnInt8Matrix) {
  put("x.weight", DType::kF32, {2, 3}, std::vector<float>(6));
  file().take("x.weight", {2, 3});
  EXPECT_ERROR(file_->refuse_leftovers(), "x.weight_scale has scales, but x.weight is not of type");
  tensors_.erase("x.weight");
  EXPECT_ERROR(file().refuse_leftovers(), "tensor x.weight_scale belongs to no heads");
  put("norm.weight", DType::kI8, {3}, std::vector<std::int8_t>(3));
  EXPECT_ERROR(file().take("norm.weight", {3}), "norm.weight is of type I8; supported are");
}

using DraftHeadTest = HeadFileTest;

TEST_F(DraftHeadTest, WithoutOneItIsTheTargets) {
  EXPECT_EQ(load().matrix, nullptr);
  config_ = R"({"draft_vocab_size": 20})";  // all
  EXPECT_EQ(load().matrix, nullptr);
  put("lm_head.weight", DType::kF32, {kTokens, kInputs}, std::vector<float>(kTokens * kInputs));
  EXPECT_EQ(load().matrix->rows(), kTokens);
  EXPECT_TRUE(load().tokens.empty());
}

// Its rows are those of its tokens in the target's head, whether that is tied or not.
TEST_F(DraftHeadTest, OfFewerTokensItHasTheirRows) {
  config_ = R"({"draft_vocab_size": 4})";
  put_tokens();
  for (const bool tied : {true, false}) {
    const HeadOnly target(target_config(tied));
    const DraftHead head =
        load_draft_head(file(), "lm_head.weight", target, target.config(), *backend_);
    file_->refuse_leftovers();
    EXPECT_EQ(head.tokens, (std::vector<std::int32_t>{3, 8, 13, 18}));
    ASSERT_EQ(head.matrix->rows(), 4);
    for (int i = 0; i < 4; i++) EXPECT_EQ(row(*head.matrix, i), target.row(3 + 5 * i));
  }
  std::vector<float> own(4 * kInputs);
  std::iota(own.begin(), own.end(), 1.0f);
  put("lm_head.weight", DType::kF32, {4, kInputs}, own);
  EXPECT_EQ(row(*load().matrix, 0), (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

// An inflated target's rows are the same ones, longer, and others are of ids that are no tokens.
TEST_F(DraftHeadTest, OfAnInflatedTarget) {
  config_ = R"({"draft_vocab_size": 4})";
  put_tokens();
  LlamaConfig runs = target_config();
  runs.d_model = 2 * kInputs;
  runs.vocab_size = 3 * kTokens;
  const DraftHead head = load(runs);
  EXPECT_EQ(head.tokens, (std::vector<std::int32_t>{3, 8, 13, 18, 20, 21, 22, 23, 24, 25, 26, 27}));
  ASSERT_EQ(head.matrix->rows(), 12);
  std::vector<float> got = row(*head.matrix, 2);
  got.resize(kInputs);
  EXPECT_EQ(got, HeadOnly(target_config()).row(13));
}

TEST_F(DraftHeadTest, ListsAndTheirLengthBelongTogether) {
  config_ = R"({"draft_vocab_size": 4})";
  EXPECT_ERROR(load(), "the tensor d2t is missing");
  put_tokens();
  config_ = R"({"draft_vocab_size": 5})";
  EXPECT_ERROR(load(), "tensor d2t has the shape [4], not [5]");
  config_ = R"({"draft_vocab_size": 0})";
  EXPECT_ERROR(load(), "draft_vocab_size is 0; it must be from 1 to");
  config_ = "{}";
  EXPECT_ERROR(load(), "draft_vocab_size");
}

}  // namespace
}  // namespace specdec
