// Folders that are taken for checkpoints: each is told what it is, and what to do.
#include <filesystem>

#include "common/checkpoint/checkpoint.h"
#include "tests/checkpoint_builder.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// What opening a folder with these files says. whole: they lie beside a good checkpoint.
std::string message_of(const std::vector<std::string>& files, bool whole = false) {
  const TemporaryDirectory directory;
  if (whole) write_checkpoint(directory.path(), tiny_config(), llama_tensors(tiny_config()));
  for (const std::string& file : files) {
    fs::create_directories((directory.path() / file).parent_path());
    directory.write(file, "{}");
  }
  return error_message([&] { Checkpoint{directory.path()}; });
}

TEST(OtherFoldersTest, ACheckpointMayLieBesideOtherFormatsOfItself) {
  EXPECT_EQ(
      message_of({"model.gguf", "pytorch_model.bin", "consolidated.00.pth", "README.md"}, true),
      "");
}

TEST(OtherFoldersTest, AnAdapterIsNoModel) {
  for (const bool whole : {false, true}) {
    EXPECT_THAT(
        message_of({"adapter_config.json", "adapter_model.safetensors"}, whole),
        ::testing::MatchesRegex("/.*: is an adapter \\(LoRA\\) and no model by itself; merge "
                                "it .*adapter_config.json\\)"));
  }
}

TEST(OtherFoldersTest, QuantisedWeightsAreNamed) {
  EXPECT_THAT(message_of({"hf_quant_config.json"}, true),
              HasSubstr("that ModelOpt quantised; use"));
  EXPECT_THAT(message_of({"quantize_config.json"}, true), HasSubstr("that GPTQ quantised; use"));
  EXPECT_THAT(message_of({"quant_config.json"}, true), HasSubstr("that AWQ quantised; use"));
}

// Where no file tells, the tensors do, before a shape or a type is compared.
TEST(OtherFoldersTest, TensorsOfQuantisedWeightsAreNamed) {
  for (const char* end : {"qweight", "scales", "weight_scale", "weight_scale_inv", "input_scale",
                          "weight_packed", "weight.absmax", "SCB"}) {
    const TemporaryDirectory directory;
    std::vector<TensorEntry> tensors = llama_tensors(tiny_config());
    tensors[0].shape = {1, 1};
    const std::string name = std::string("model.layers.0.mlp.up_proj.") + end;
    tensors.push_back({name, DType::kF32, {8}, 0, 0});
    write_checkpoint(directory.path(), tiny_config(), tensors);
    EXPECT_ERROR(Checkpoint(directory.path()),
                 "tensor " + name + " belongs to quantised weights; use the checkpoint in bf16");
  }
}

TEST(OtherFoldersTest, OtherFormatsAreNamed) {
  const std::vector<std::string> with_config = {"config.json"}, without;
  for (auto files : {with_config, without}) {
    const auto message_with = [&](const std::string& file) {
      auto all = files;
      all.push_back(file);
      return message_of(all);
    };
    EXPECT_THAT(
        message_with("tiny-q4_0.gguf"),
        ::testing::ContainsRegex("GGUF; convert it with make real GGUF=/.*/tiny-q4_0.gguf"));
    for (const char* file : {"pytorch_model.bin", "pytorch_model-00001-of-00002.bin"}) {
      EXPECT_THAT(message_with(file),
                  HasSubstr(fmt::format("in PyTorch's format ({}); load", file)));
    }
    EXPECT_THAT(message_with("consolidated.00.pth"), HasSubstr("in Meta's format (consolidated."));
    EXPECT_THAT(message_with("snapshots/0123abc/config.json"),
                ::testing::ContainsRegex("is a hub's cache of a model; .*/snapshots/0123abc$"));
  }
}

TEST(OtherFoldersTest, AFileIsNoFolder) {
  const TemporaryDirectory directory;
  for (const char* file : {"model.safetensors", "config.json", "model.gguf"}) {
    directory.write(file, "");
    const std::string message = error_message([&] { Checkpoint{directory.path() / file}; });
    EXPECT_THAT(message, HasSubstr(std::string(file).ends_with("gguf")
                                       ? "format, GGUF; convert it with make real GGUF=/"
                                       : "is a file; name the directory that holds config.json"));
  }
}

// A hub's cache holds links to blobs. Without the blobs even files that may be missing must not
// just count as missing: the tokens that end a text would change.
TEST(OtherFoldersTest, LinksToNothingAreNamed) {
  for (const char* file : {"config.json", "generation_config.json", "model.safetensors",
                           "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}) {
    const TemporaryDirectory directory;
    write_checkpoint(directory.path(), tiny_config(), llama_tensors(tiny_config()));
    fs::remove(directory.path() / file);
    fs::create_symlink("../../blobs/0123abc", directory.path() / file);
    EXPECT_ERROR(Checkpoint(directory.path()),
                 std::string(file) +
                     ": is a link to ../../blobs/0123abc, which is not there; "
                     "download the model again");
  }
}

TEST(OtherFoldersTest, AShardMayBeALinkToNothing) {
  const TemporaryDirectory directory;
  directory.write("config.json", tiny_config().dump());
  directory.write("model.safetensors.index.json",
                  R"({"weight_map": {"model.norm.weight": "model-1.safetensors"}})");
  fs::create_symlink("gone", directory.path() / "model-1.safetensors");
  EXPECT_ERROR(Checkpoint(directory.path()),
               "model-1.safetensors: is a link to gone, which is not");
}

TEST(OtherFoldersTest, ALinkToNoFolder) {
  const TemporaryDirectory directory;
  fs::create_directory_symlink("gone", directory.path() / "model");
  EXPECT_ERROR(Checkpoint(directory.path() / "model"),
               "model: is a link to gone, which is not there");
}

}  // namespace
}  // namespace specdec
