// Whole checkpoints on disk: one file and shards, tied and untied, and what is refused.
#include "common/checkpoint/checkpoint.h"

#include <cmath>
#include <cstring>
#include <fstream>

#include <sys/stat.h>

#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "common/checkpoint/elements.h"
#include "common/checkpoint/safetensors_writer.h"
#include "tests/checkpoint_builder.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

std::int64_t elements(const TensorView& view) {
  std::int64_t product = 1;
  for (const std::int64_t dimension : view.shape) product *= dimension;
  return product;
}

// A checkpoint of two shards with an index: the first `split` tensors in the first one.
void write_shards(const fs::path& directory, const Json& config, std::size_t split) {
  std::ofstream(directory / "config.json") << config;
  const std::vector<TensorEntry> all = llama_tensors(config);
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(split);
  Json weight_map;
  const auto write = [&](const std::string& name, std::vector<TensorEntry> part) {
    for (const TensorEntry& tensor : part) weight_map[tensor.name] = name;
    write_sparse_safetensors(directory / name, std::move(part));
  };
  write("model-00001-of-00002.safetensors", {all.begin(), middle});
  write("model-00002-of-00002.safetensors", {middle, all.end()});
  std::ofstream(directory / "model.safetensors.index.json")
      << Json{{"metadata", {{"total_size", 1}}}, {"weight_map", weight_map}};
}

TEST(CheckpointTest, OpensEveryShape) {
  for (const bool tied : {true, false}) {
    for (const int n_kv_heads : {1, 2, 4}) {
      for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
        const TemporaryDirectory directory;
        Json config = tiny_config();
        config.update({{"tie_word_embeddings", tied}, {"num_key_value_heads", n_kv_heads}});
        write_checkpoint(directory.path(), config, llama_tensors(config, dtype));
        const Checkpoint checkpoint(directory.path());
        const LlamaWeights& weights = checkpoint.weights();
        ASSERT_EQ(weights.layers.size(), 2u);
        EXPECT_EQ(weights.head.bytes.data() == weights.embedding.bytes.data(), tied);
        EXPECT_EQ(elements(weights.layers[1].k_proj), n_kv_heads * 6 * 8);
        EXPECT_EQ(elements(weights.layers[1].o_proj), 4 * 6 * 8);
        EXPECT_EQ(weights.layers[0].down_proj.dtype, dtype);
      }
    }
  }
}

// Every tensor holds its own name's number, so that a mix-up of two names of one shape shows.
TEST(CheckpointTest, EveryViewPointsAtItsOwnTensor) {
  const TemporaryDirectory directory;
  const Json config = tiny_config();
  std::vector<TensorEntry> entries = llama_tensors(config, DType::kF32);
  std::vector<std::vector<float>> values;
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < entries.size(); i++) {
    const std::uint64_t bytes = tensor_bytes(DType::kF32, entries[i].shape, entries[i].name);
    values.emplace_back(bytes / sizeof(float), static_cast<float>(i));
  }
  for (std::size_t i = 0; i < entries.size(); i++) {
    tensors.push_back(
        {entries[i].name, {DType::kF32, entries[i].shape, std::as_bytes(std::span(values[i]))}});
  }
  std::ofstream(directory.path() / "config.json") << config;
  write_safetensors(directory.path() / "model.safetensors", tensors);

  const Checkpoint checkpoint(directory.path());
  const LlamaWeights& weights = checkpoint.weights();
  std::vector<const TensorView*> in_order{&weights.embedding};
  for (const LlamaLayerWeights& layer : weights.layers) {
    for (const TensorView* view :
         {&layer.attn_norm, &layer.down_proj, &layer.gate_proj, &layer.up_proj, &layer.mlp_norm,
          &layer.k_proj, &layer.o_proj, &layer.q_proj, &layer.v_proj}) {
      in_order.push_back(view);
    }
  }
  in_order.push_back(&weights.final_norm);
  ASSERT_EQ(in_order.size(), entries.size());
  for (std::size_t i = 0; i < entries.size(); i++) {
    float first = -1;
    std::memcpy(&first, in_order[i]->bytes.data(), sizeof first);
    EXPECT_EQ(first, static_cast<float>(i)) << entries[i].name;
  }
}

// As a source of weights it gives the same views.
TEST(CheckpointTest, EveryKindOfWeightIsItsOwnTensor) {
  const TemporaryDirectory directory;
  Json config = tiny_config();
  config["tie_word_embeddings"] = false;
  write_checkpoint(directory.path(), config, llama_tensors(config));
  const Checkpoint checkpoint(directory.path());
  const LlamaWeights& weights = checkpoint.weights();
  const auto expect_view = [&](WeightKind kind, int layer, const TensorView& want) {
    const Weight got = checkpoint.weight(kind, layer);
    EXPECT_EQ(got.view.bytes.data(), want.bytes.data()) << static_cast<int>(kind);
    EXPECT_EQ(got.memory, nullptr);
  };
  expect_view(WeightKind::kEmbedding, -1, weights.embedding);
  expect_view(WeightKind::kFinalNorm, -1, weights.final_norm);
  expect_view(WeightKind::kHead, -1, weights.head);
  for (int i = 0; i < 2; i++) {
    const LlamaLayerWeights& layer = weights.layers[static_cast<std::size_t>(i)];
    expect_view(WeightKind::kAttnNorm, i, layer.attn_norm);
    expect_view(WeightKind::kQProj, i, layer.q_proj);
    expect_view(WeightKind::kKProj, i, layer.k_proj);
    expect_view(WeightKind::kVProj, i, layer.v_proj);
    expect_view(WeightKind::kOProj, i, layer.o_proj);
    expect_view(WeightKind::kMlpNorm, i, layer.mlp_norm);
    expect_view(WeightKind::kGateProj, i, layer.gate_proj);
    expect_view(WeightKind::kUpProj, i, layer.up_proj);
    expect_view(WeightKind::kDownProj, i, layer.down_proj);
  }
}

TEST(CheckpointTest, ShardsAreFoundByTheIndex) {
  const TemporaryDirectory directory;
  write_shards(directory.path(), tiny_config(), 7);
  const Checkpoint checkpoint(directory.path());
  ASSERT_EQ(checkpoint.files().size(), 2u);
  EXPECT_EQ(checkpoint.files()[0].header().tensors.size(), 7u);
  EXPECT_EQ(checkpoint.weights().layers.size(), 2u);
}

TEST(CheckpointTest, GenerationConfigCountsBeforeConfig) {
  const TemporaryDirectory directory;
  write_checkpoint(directory.path(), tiny_config(), llama_tensors(tiny_config()));
  EXPECT_EQ(Checkpoint(directory.path()).config().eos_ids, (std::vector<TokenId>{2}));
  directory.write("generation_config.json", R"({"eos_token_id": [5, 6]})");
  EXPECT_EQ(Checkpoint(directory.path()).config().eos_ids, (std::vector<TokenId>{5, 6}));
  directory.write("generation_config.json", R"({"temperature": 0.6})");
  EXPECT_EQ(Checkpoint(directory.path()).config().eos_ids, (std::vector<TokenId>{2}));
}

TEST(CheckpointTest, ViewsSurviveAMove) {
  const TemporaryDirectory directory;
  write_checkpoint(directory.path(), tiny_config(), llama_tensors(tiny_config()));
  Checkpoint first(directory.path());
  const std::byte* embedding = first.weights().embedding.bytes.data();
  const Checkpoint second = std::move(first);
  EXPECT_EQ(second.weights().embedding.bytes.data(), embedding);
  EXPECT_EQ(second.weights().embedding.bytes[0], *embedding) << "still mapped";
}

TEST(CheckpointTest, HarmlessExtrasAreIgnored) {
  const TemporaryDirectory directory;
  std::vector<TensorEntry> tensors = llama_tensors(tiny_config());
  tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", DType::kF32, {3}, 0, 0});
  write_checkpoint(directory.path(), tiny_config(), tensors);
  EXPECT_NO_THROW(Checkpoint{directory.path()});
}

// Copies the embedding's bytes over those of the head.
void make_head_equal(const std::filesystem::path& weights) {
  std::string embedding;
  std::streamoff head = 0;
  {
    const SafetensorsFile file(weights);
    const auto bytes = file.tensor("model.embed_tokens.weight").bytes;
    embedding.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    for (const TensorEntry& tensor : file.header().tensors) {
      if (tensor.name != "lm_head.weight") continue;
      head = static_cast<std::streamoff>(file.header().data_start + tensor.begin);
    }
  }
  std::fstream stream(weights, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(head);
  stream << embedding;
}

TEST(CheckpointTest, ATiedHeadThatIsStoredMustBeTheEmbedding) {
  const TemporaryDirectory directory;
  std::vector<TensorEntry> tensors = llama_tensors(tiny_config());
  tensors.push_back({"lm_head.weight", DType::kBF16, {20, 8}, 0, 0});
  write_checkpoint(directory.path(), tiny_config(), tensors);
  EXPECT_ERROR(Checkpoint(directory.path()),
               "config.json says that the head is tied to the embedding, but a different "
               "lm_head.weight is stored");
  make_head_equal(directory.path() / "model.safetensors");
  const Checkpoint checkpoint(directory.path());
  EXPECT_EQ(checkpoint.weights().head.bytes.data(), checkpoint.weights().embedding.bytes.data());
}

TEST(CheckpointTest, ATiedHeadMayBeStoredInAnotherType) {
  const TemporaryDirectory directory;
  const fs::path weights = directory.path() / "model.safetensors";
  std::vector<TensorEntry> tensors = llama_tensors(tiny_config());
  tensors.push_back({"lm_head.weight", DType::kF32, {20, 8}, 0, 0});
  write_checkpoint(directory.path(), tiny_config(), tensors);
  std::vector<float> numbers;
  std::streamoff head = 0;
  {
    const SafetensorsFile file(weights);
    numbers = to_float32(file.tensor("model.embed_tokens.weight"));  // of bfloat16, exactly
    for (const TensorEntry& tensor : file.header().tensors) {
      if (tensor.name != "lm_head.weight") continue;
      head = static_cast<std::streamoff>(file.header().data_start + tensor.begin);
    }
  }
  const auto store = [&] {
    std::fstream stream(weights, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(head);
    stream.write(reinterpret_cast<const char*>(numbers.data()),
                 static_cast<std::streamsize>(numbers.size() * sizeof(float)));
  };
  store();
  const Checkpoint checkpoint(directory.path());
  EXPECT_EQ(checkpoint.weights().head.bytes.data(), checkpoint.weights().embedding.bytes.data());
  numbers.back() = std::nextafter(numbers.back(), 2.0f);
  store();
  EXPECT_ERROR(Checkpoint(directory.path()), "but a different lm_head.weight is stored");
}

// The tiny checkpoint after one change to its tensors.
template <typename Change>
std::string message_after(Change&& change) {
  const TemporaryDirectory directory;
  std::vector<TensorEntry> tensors = llama_tensors(tiny_config());
  change(tensors);
  write_checkpoint(directory.path(), tiny_config(), tensors);
  return error_message([&] { Checkpoint{directory.path()}; });
}

TEST(CheckpointBadInputTest, TensorsThatDoNotFitTheConfig) {
  using ::testing::HasSubstr;
  using Tensors = std::vector<TensorEntry>;
  EXPECT_EQ(message_after([](Tensors&) {}), "");
  EXPECT_THAT(message_after([](Tensors& t) { t.pop_back(); }),
              HasSubstr("the tensor model.norm.weight is missing"));
  EXPECT_THAT(message_after([](Tensors& t) {
                t[2].shape = {12, 8};
              }),
              HasSubstr("model.safetensors: tensor model.layers.0.mlp.down_proj.weight has the "
                        "shape [12, 8]; config.json makes it [8, 12]"));
  EXPECT_THAT(message_after([](Tensors& t) { t[0].dtype = DType::kI8; }),
              HasSubstr("is of type I8; supported are BF16, F16 and F32"));
  EXPECT_THAT(message_after([](Tensors& t) {
                t.push_back({"model.layers.0.self_attn.q_proj.bias", DType::kBF16, {24}, 0, 0});
              }),
              HasSubstr("tensor model.layers.0.self_attn.q_proj.bias belongs to no Llama model"));
  EXPECT_THAT(message_after([](Tensors& t) {
                t.push_back({"model.layers.2.input_layernorm.weight", DType::kBF16, {8}, 0, 0});
              }),
              HasSubstr("tensor model.layers.2.input_layernorm.weight belongs to no Llama model"));
}

TEST(CheckpointBadInputTest, UntiedHeadMustBeThere) {
  const TemporaryDirectory directory;
  Json config = tiny_config();
  const std::vector<TensorEntry> tied = llama_tensors(config);
  config["tie_word_embeddings"] = false;
  write_checkpoint(directory.path(), config, tied);
  EXPECT_ERROR(Checkpoint(directory.path()), "the tensor lm_head.weight is missing");
}

TEST(CheckpointBadInputTest, MissingFilesAreNamed) {
  const TemporaryDirectory directory;
  EXPECT_ERROR(Checkpoint(directory.path() / "none"), "none: no such directory");
  EXPECT_ERROR(Checkpoint(directory.path()), "config.json: cannot be opened: No such file");
  directory.write("config.json", tiny_config().dump());
  EXPECT_ERROR(Checkpoint(directory.path()),
               "has neither model.safetensors nor model.safetensors.index.json");
  directory.write("generation_config.json", "{");
  EXPECT_ERROR(Checkpoint(directory.path()), "generation_config.json: not valid JSON");
}

TEST(CheckpointBadInputTest, FilesThatAreNoFiles) {
  const char* names[] = {"config.json", "generation_config.json", "model.safetensors.index.json",
                         "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};
  for (const char* name : names) {
    const TemporaryDirectory directory;
    write_shards(directory.path(), tiny_config(), 7);
    const fs::path path = directory.path() / name;
    fs::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    EXPECT_ERROR(Checkpoint(directory.path()), path.string() + ": is not a regular file");
    fs::remove(path);
    fs::create_symlink(name, path);
    EXPECT_THROW(Checkpoint(directory.path()), std::exception) << "a link to itself";
  }
}

TEST(CheckpointBadInputTest, IndexThatDoesNotFitItsShards) {
  const TemporaryDirectory directory;
  const fs::path index = directory.path() / "model.safetensors.index.json";
  write_shards(directory.path(), tiny_config(), 7);
  Json good = parse_json(read_text_file(index), "index");
  const auto message_with = [&](const std::string& tensor, const Json& file) {
    Json changed = good;
    changed["weight_map"][tensor] = file;
    directory.write("model.safetensors.index.json", changed.dump());
    return error_message([&] { Checkpoint{directory.path()}; });
  };
  using ::testing::HasSubstr;
  const std::string norm = "model.norm.weight";
  EXPECT_THAT(message_with(norm, "model-00001-of-00002.safetensors"),
              HasSubstr("model-00001-of-00002.safetensors: the tensor model.norm.weight is "
                        "missing; model.safetensors.index.json says that it is here"));
  EXPECT_THAT(message_with(norm, "model-00003-of-00002.safetensors"),
              HasSubstr("model-00003-of-00002.safetensors: cannot be opened"));
  EXPECT_THAT(message_with(norm, "../other.safetensors"), HasSubstr("is no plain file name"));
  EXPECT_THAT(message_with(norm, ""), HasSubstr("is no plain file name"));
  EXPECT_THAT(message_with(norm, ".."), HasSubstr("is no plain file name"));
  // The system would end the name at the NUL, and open a shard that is there.
  const std::string shard = "model-00002-of-00002.safetensors";
  EXPECT_THAT(message_with(norm, shard), "");
  EXPECT_THAT(message_with(norm, shard + std::string("\0junk", 5)),
              HasSubstr("is no plain file name"));
  EXPECT_THAT(message_with(norm, 3), HasSubstr("model.norm.weight is 3; it must be a file name"));
  directory.write("model.safetensors.index.json", R"({"weight_map": {}})");
  EXPECT_ERROR(Checkpoint(directory.path()), "index.json: names no tensor");
  directory.write("model.safetensors.index.json", R"({"metadata": {}})");
  EXPECT_ERROR(Checkpoint(directory.path()), "index.json: the field weight_map is missing");
}

}  // namespace
}  // namespace specdec
