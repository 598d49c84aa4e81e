// Matrices of groups, as a GGUF file holds them: every number, and what is refused.
#include "common/checkpoint/grouped_tensor.h"

#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/elements.h"
#include "common/llama_model.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/quantize.h"
#include "tests/checkpoint_builder.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<TensorEntry>;

// Rows of whole groups: 32, 64 and 4 * 8.
Json grouped_config() {
  Json config = tiny_config();
  config.update({{"hidden_size", 32}, {"intermediate_size", 64}, {"head_dim", 8}});
  return config;
}

bool is_matrix(const TensorEntry& tensor) { return tensor.shape.size() == 2; }

// Layers in Q4_1, embedding and head in Q8_0, norms as they are.
Tensors grouped_tensors(const Json& config) {
  Tensors tensors = llama_tensors(config);
  for (TensorEntry& tensor : tensors) {
    if (!is_matrix(tensor)) continue;
    const bool of_layer = tensor.name.starts_with("model.layers.");
    tensor.name += of_layer ? ".q4_1" : ".q8_0";
    tensor.shape[1] = tensor.shape[1] / 32 * (of_layer ? 20 : 34);
    tensor.dtype = DType::kU8;
  }
  return tensors;
}

template <typename Group>
std::vector<float> numbers_of(std::span<const std::byte> bytes) {
  std::vector<float> numbers;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Group)) {
    Group group;
    std::memcpy(&group, bytes.data() + at, sizeof group);
    for (int i = 0; i < 32; i++) numbers.push_back(group.at(i));
  }
  return numbers;
}

// As a matrix that the backend holds.
std::vector<float> rows_of(Backend& backend, const TensorView& view) {
  const HostMatrix host = host_matrix(view);
  const auto matrix = backend.load_matrix({&host, 1});
  std::vector<std::int32_t> ids;
  for (int n = 0; n < host.rows; n++) ids.push_back(n);
  std::vector<float> rows(static_cast<std::size_t>(view.elements()));
  backend.embed(*matrix, ids.data(), {rows.data(), host.rows, host.width, host.width});
  return rows;
}

TEST(GroupedTensorTest, ItsNumbersAreScaleTimesQPlusMinimum) {
  const TemporaryDirectory directory;
  write_checkpoint(directory.path(), grouped_config(), grouped_tensors(grouped_config()));
  const Checkpoint checkpoint(directory.path());
  EXPECT_TRUE(checkpoint.has_groups());
  const TensorView down = checkpoint.weights().layers[1].down_proj;
  EXPECT_EQ(down.dtype, DType::kQ4_1);
  EXPECT_EQ(down.shape, (std::vector<std::int64_t>{32, 64}));
  EXPECT_EQ(down.bytes.size(), 32u * 2 * 20);
  EXPECT_EQ(to_float32(down), numbers_of<cpu::Q4Group>(down.bytes));
  const TensorView table = checkpoint.weights().embedding;
  EXPECT_EQ(table.dtype, DType::kQ8_0);
  EXPECT_EQ(table.shape, (std::vector<std::int64_t>{20, 32}));
  EXPECT_EQ(to_float32(table), numbers_of<cpu::Q8Group>(table.bytes));
  for (const auto& backend : {make_plain_backend(), make_cpu_backend(2)}) {
    for (const TensorView& view : {down, table}) {
      EXPECT_EQ(rows_of(*backend, view), to_float32(view)) << backend->name();
    }
  }
}

TEST(GroupedTensorTest, AHeadOfItsOwnAndShardsAndFloatsBesideGroups) {
  const TemporaryDirectory directory;
  Json config = grouped_config();
  config["tie_word_embeddings"] = false;
  Tensors tensors = grouped_tensors(config);
  tensors[0] = llama_tensors(config)[0];  // the embedding in bf16
  write_checkpoint(directory.path(), config, tensors);
  const Checkpoint checkpoint(directory.path());
  EXPECT_EQ(checkpoint.weights().embedding.dtype, DType::kBF16);
  EXPECT_EQ(checkpoint.weights().head.dtype, DType::kQ8_0);
  EXPECT_EQ(checkpoint.weights().layers[0].attn_norm.dtype, DType::kBF16);
}

// The checkpoint of groups after one change to its tensors.
template <typename Change>
std::string grouped_message(Change&& change, const Json& config = grouped_config()) {
  const TemporaryDirectory directory;
  Tensors tensors = grouped_tensors(config);
  change(tensors);
  write_checkpoint(directory.path(), config, tensors);
  return error_message([&] { Checkpoint{directory.path()}; });
}

// The first tensor whose name ends so.
TensorEntry& find(Tensors& tensors, std::string_view end) {
  return *std::ranges::find_if(
      tensors, [&](const TensorEntry& tensor) { return tensor.name.ends_with(end); });
}

TEST(GroupedTensorBadInputTest, TensorsThatDoNotFit) {
  EXPECT_EQ(grouped_message([](Tensors&) {}), "");
  EXPECT_THAT(grouped_message([](Tensors& t) {
                find(t, "up_proj.weight.q4_1").shape = {64, 34};
              }),
              HasSubstr("model.safetensors: tensor model.layers.0.mlp.up_proj.weight.q4_1 has the "
                        "shape [64, 34]; config.json makes it [64, 20]"));
  EXPECT_THAT(grouped_message([](Tensors& t) { find(t, "up_proj.weight.q4_1").shape = {64 * 20}; }),
              HasSubstr("up_proj.weight.q4_1 has the shape [1280]; config.json makes it [64, 20]"));
  EXPECT_THAT(
      grouped_message([](Tensors& t) { find(t, "up_proj.weight.q4_1").dtype = DType::kF16; }),
      HasSubstr("up_proj.weight.q4_1 is of type F16; groups of Q4_1 are kept as U8"));
  EXPECT_THAT(grouped_message([](Tensors& t) { t.erase(t.begin() + 3); }),
              HasSubstr("the tensor model.layers.0.mlp.gate_proj.weight is missing"));
  EXPECT_THAT(grouped_message([](Tensors& t) {
                TensorEntry& norm = find(t, "input_layernorm.weight");
                norm.name += ".q8_0";
                norm.dtype = DType::kU8;
                norm.shape = {34};
              }),
              HasSubstr("the tensor model.layers.0.input_layernorm.weight is missing"));
}

TEST(GroupedTensorBadInputTest, RowsThatAreNoWholeGroups) {
  Json config = grouped_config();
  config["intermediate_size"] = 48;
  EXPECT_THAT(grouped_message([](Tensors&) {}, config),
              HasSubstr("tensor model.layers.0.mlp.down_proj.weight.q4_1: config.json makes its "
                        "rows 48 wide, which is no multiple of 32"));
}

TEST(GroupedTensorBadInputTest, AMatrixThatIsThereTwice) {
  EXPECT_THAT(grouped_message([](Tensors& t) {
                t.push_back({"model.embed_tokens.weight", DType::kBF16, {20, 32}, 0, 0});
              }),
              HasSubstr("holds model.embed_tokens.weight twice, as model.embed_tokens.weight.q8_0 "
                        "and as model.embed_tokens.weight"));
}

TEST(GroupedTensorBadInputTest, MatricesOfOneInputMustHaveOneType) {
  const auto change_type = [](std::string_view end) {
    return grouped_message([&](Tensors& t) {
      TensorEntry& tensor = find(t, end);
      tensor.name.replace(tensor.name.size() - 5, 5, ".q8_0");
      tensor.shape[1] = tensor.shape[1] / 20 * 34;
    });
  };
  EXPECT_THAT(change_type("k_proj.weight.q4_1"),
              HasSubstr("layer 0 has weights of type Q4_1 beside Q8_0; q_proj, k_proj and v_proj "
                        "must be of one type"));
  EXPECT_THAT(
      change_type("up_proj.weight.q4_1"),
      HasSubstr("layer 0 has weights of type Q4_1 beside Q8_0; gate_proj and up_proj must"));
  EXPECT_EQ(change_type("down_proj.weight.q4_1"), "") << "a matrix by itself";
}

TEST(GroupedTensorBadInputTest, NoHeaderHasTheTypesOfGroups) {
  EXPECT_FALSE(dtype_from_name("Q4_1"));
  EXPECT_FALSE(dtype_from_name("Q8_0"));
}

}  // namespace
}  // namespace specdec
