// Checkpoints of the real Llama-3.2 files' sizes: the published files cannot be shipped, but what
// this test writes has their config, names, types, order and byte counts.
#include <fstream>

#include "common/base/json_value.h"
#include "common/checkpoint/checkpoint.h"
#include "tests/checkpoint_builder.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

// A line of /proc/self/status, such as "RssAnon:", in bytes.
std::int64_t process_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != key) continue;
    std::int64_t kilobytes = 0;
    status >> kilobytes;
    return kilobytes * 1024;
  }
  return -1;
}

// The peak of resident memory since the last reset: all pages, also the mapped ones.
class PeakMemory {
 public:
  PeakMemory() {
    std::ofstream("/proc/self/clear_refs") << "5";
    start_ = process_bytes("VmRSS:");
  }
  std::int64_t growth() const { return process_bytes("VmHWM:") - start_; }

 private:
  std::int64_t start_ = 0;
};

constexpr std::int64_t kMiB = 1 << 20;

// The peak is taken over all resident pages, those of the map included, and still has to stay
// below 50 MB: opening reads headers and nothing else.
void expect_small_peak(const PeakMemory& peak, const char* what) {
  const std::int64_t growth = peak.growth();
  std::cout << what << ": peak memory while opening " << growth / 1024 << " KiB\n";
  EXPECT_GE(growth, 0);
  EXPECT_LT(growth, 50'000'000);
}

// The control: memory that is used is seen, and would fail the test above.
TEST(PeakMemoryTest, SeesMemoryThatIsGivenBackAgain) {
  const PeakMemory peak;
  {
    const std::vector<char> used(std::size_t{64} * kMiB, 'x');
    asm volatile("" : : "r"(used.data()) : "memory");  // or the compiler leaves all of it out
  }
  EXPECT_GT(peak.growth(), 60 * kMiB);
}

// Skips where the disk cannot hold the files, in words that no summary reads as "passed".
#define REQUIRE_FREE_SPACE(directory, bytes)                                                      \
  if (fs::space(directory).available < (bytes)) {                                                 \
    GTEST_SKIP() << "NOT CHECKED: needs " << (bytes) / kMiB << " MiB in " << (directory).string() \
                 << "; set TMPDIR to a place with more";                                          \
  }

// The exact config, names, types and full vocabulary of the 1B with 2 layers of random weights.
TEST(RealSizeTest, TwoLayersOfThe1BWithRandomWeights) {
  const TemporaryDirectory directory;
  REQUIRE_FREE_SPACE(directory.path(), std::uintmax_t{1000} * kMiB);
  Json config = llama_3_2_1b_config();
  config["num_hidden_layers"] = 2;
  write_checkpoint(directory.path(), config, llama_tensors(config));
  directory.write("generation_config.json", R"({"bos_token_id": 128000, "do_sample": true,
    "eos_token_id": [128001, 128008, 128009], "temperature": 0.6, "top_p": 0.9})");

  const PeakMemory peak;
  const Checkpoint checkpoint(directory.path());
  expect_small_peak(peak, "1B, 2 layers, 770 MB");
  EXPECT_EQ(checkpoint.config().eos_ids, (std::vector<TokenId>{128001, 128008, 128009}));
  EXPECT_EQ(checkpoint.weights().embedding.shape, (std::vector<std::int64_t>{128256, 2048}));
  EXPECT_EQ(checkpoint.weights().layers.size(), 2u);
  // The last byte of the last tensor can be read, and the weights differ from each other.
  const std::span<const std::byte> norm = checkpoint.weights().final_norm.bytes;
  EXPECT_EQ(norm.size(), 2048u * 2);
  EXPECT_NE(std::vector(norm.begin(), norm.begin() + 8), std::vector(norm.end() - 8, norm.end()));
}

// All 146 tensors and 2,471,645,608 bytes of the published 1B; the weights are a hole in the file.
TEST(RealSizeTest, TheWhole1B) {
  const TemporaryDirectory directory;
  directory.write("config.json", llama_3_2_1b_config().dump(2));
  const fs::path file = directory.path() / "model.safetensors";
  EXPECT_EQ(write_sparse_safetensors(file, llama_tensors(llama_3_2_1b_config())), 16'800u);
  EXPECT_EQ(fs::file_size(file), 2'471'645'608u);
  const PeakMemory peak;
  const Checkpoint checkpoint(directory.path());
  expect_small_peak(peak, "1B, 2.5 GB");
  EXPECT_EQ(checkpoint.weights().layers.size(), 16u);
}

// The published 3B lies in two shards that part inside layer 20, with an index beside them.
TEST(RealSizeTest, TheWhole3BInTwoShards) {
  const TemporaryDirectory directory;
  const Json config = llama_3_2_3b_config();
  directory.write("config.json", config.dump(2));
  std::vector<TensorEntry> first;
  std::vector<TensorEntry> second;
  for (const TensorEntry& tensor : llama_tensors(config)) {
    int layer = tensor.name == "model.norm.weight" ? 28 : -1;
    std::sscanf(tensor.name.c_str(), "model.layers.%d.", &layer);
    const bool late = tensor.name.find("norm") != std::string::npos ||
                      tensor.name.find("down_proj") != std::string::npos;
    (layer > 20 || (layer == 20 && late) ? second : first).push_back(tensor);
  }
  EXPECT_EQ(first.size(), 187u);
  EXPECT_EQ(second.size(), 67u);
  const std::string names[] = {"model-00001-of-00002.safetensors",
                               "model-00002-of-00002.safetensors"};
  Json index = {{"metadata", {{"total_size", 6'425'499'648}}}};
  for (const TensorEntry& tensor : first) index["weight_map"][tensor.name] = names[0];
  for (const TensorEntry& tensor : second) index["weight_map"][tensor.name] = names[1];
  directory.write("model.safetensors.index.json", index.dump(2));
  EXPECT_EQ(write_sparse_safetensors(directory.path() / names[0], first), 21'680u);
  EXPECT_EQ(write_sparse_safetensors(directory.path() / names[1], second), 7'704u);
  EXPECT_EQ(fs::file_size(directory.path() / names[0]), 4'965'799'096u);
  EXPECT_EQ(fs::file_size(directory.path() / names[1]), 1'459'729'952u);

  const PeakMemory peak;
  const Checkpoint checkpoint(directory.path());
  expect_small_peak(peak, "3B, 6.4 GB in two shards");
  EXPECT_EQ(checkpoint.files().size(), 2u);
  EXPECT_EQ(checkpoint.weights().layers.size(), 28u);
  EXPECT_EQ(checkpoint.weights().layers[20].down_proj.shape,
            (std::vector<std::int64_t>{3072, 8192}));
}

}  // namespace
}  // namespace specdec
