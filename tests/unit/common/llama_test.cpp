// The engine's books: what it counts, what it refuses, and that refusing changes nothing.
#include <cmath>
#include <filesystem>
#include <fstream>

#include "tests/engine_fixture.h"
#include "tests/test_support.h"
#include "tests/unit/common/memory_backend.h"

namespace specdec {
namespace {

// Has weights that are nothing, and fails where the first layer would be computed.
class FailingBackend : public MemoryBackend {
 public:
  std::unique_ptr<const WeightMatrix> load_matrix(std::span<const HostMatrix> parts,
                                                  WeightFormat) override {
    struct Nothing : WeightMatrix {
      explicit Nothing(const HostMatrix& part) : WeightMatrix(part.rows, part.width, 0) {}
    };
    return std::make_unique<Nothing>(parts[0]);
  }
  void embed(const WeightMatrix&, const std::int32_t*, DeviceRows) override {}
  void rope_angles(const std::int32_t*, const float*, DeviceRows, DeviceRows) override {}
  void rms_norm(ConstDeviceRows, const float*, float, DeviceRows) override { fail("lost device"); }
};

TEST(LlamaFailure, ADeviceThatFailsChangesNoLength) {
  Engine engine("untied", std::make_unique<FailingBackend>(), 4);
  const SequenceId a = engine.llama->create(), b = engine.llama->create();
  const auto tokens = random_tokens(9, engine.llama->vocab_size(), 1);
  const std::vector<Segment> batch = {{a, tokens, 0}, {b, std::span(tokens).first(2), 0}};
  EXPECT_ERROR(engine.llama->forward(batch, {}), "lost device");
  EXPECT_EQ(engine.llama->length(a), 0);
  EXPECT_EQ(engine.llama->length(b), 0);
  const auto* paged = dynamic_cast<const PagedKvCache*>(engine.cache.get());
  EXPECT_EQ(paged->allocator().n_used(), 0);
}

// This process's memory that is a file's, in bytes.
std::int64_t mapped_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "RssFile:") continue;
    std::int64_t kilobytes = 0;
    status >> kilobytes;
    return kilobytes * 1024;
  }
  ADD_FAILURE() << "no RssFile";
  return 0;
}

// What is packed is let go in the file, so that a model is in memory once, and never twice.
TEST(LlamaLoading, AFilesPagesAreLetGoAsTheyArePacked) {
  const auto backend = make_cpu_backend(2);
  LoadedModel once("target");  // code and other files are in memory now
  const Checkpoint checkpoint(golden_model("target"));
  const auto file = static_cast<std::int64_t>(
      std::filesystem::file_size(golden_model("target") / "model.safetensors"));
  const std::int64_t before = mapped_bytes();
  std::int64_t most = 0;
  const LlamaModel model(checkpoint, *backend,
                         [&](int, int) { most = std::max(most, mapped_bytes() - before); });
  EXPECT_LT(most, file / 2) << "no more than the largest matrix, the embedding, at a time";
  EXPECT_LT(mapped_bytes() - before, file / 10);
}

class LlamaTest : public ::testing::Test {
 protected:
  LlamaTest() : engine_("untied", make_cpu_backend(2), 4, {.max_pass_rows = 8}, 1, 40) {}

  Llama& llama() { return *engine_.llama; }
  std::vector<TokenId> tokens(int count) {
    return random_tokens(count, llama().vocab_size(), unsigned(count));
  }

  Engine engine_;
};

TEST_F(LlamaTest, CountsForwardsPassesRowsAndBytes) {
  const SequenceId sequence = llama().create();
  engine_.forward(sequence, tokens(20), 0);  // passes of 8, 8 and 4 rows, none of them with a head
  EXPECT_EQ(llama().counters().forwards, 1);
  EXPECT_EQ(llama().counters().passes, 3);
  EXPECT_EQ(llama().counters().rows, 20);
  const auto layers = static_cast<std::int64_t>(engine_.model.layer_bytes());
  EXPECT_EQ(llama().counters().weight_bytes, 3 * layers);
  engine_.forward(sequence, tokens(5), 2);
  const LlamaCounters& counters = llama().counters();
  EXPECT_EQ(counters.passes, 4);
  EXPECT_EQ(counters.weight_bytes,
            4 * layers + static_cast<std::int64_t>(engine_.model.head().bytes()));
  // Not less than the checkpoint holds, and not twice as much: padding is small.
  const std::size_t parameters = Checkpoint(golden_model("untied")).weights().head.bytes.size();
  EXPECT_GE(engine_.model.head().bytes(), parameters);
}

TEST_F(LlamaTest, AFullCacheChangesNothing) {
  const SequenceId sequence = llama().create();
  const auto prompt = tokens(38);
  const HostRows before = engine_.forward(sequence, prompt, 1);
  const LogitsBuffer logits(llama(), 1);
  const auto three = tokens(3);
  EXPECT_THROW(llama().forward(Segment{sequence, three, 1}, logits.rows(0, 1)), CacheFull);
  EXPECT_EQ(llama().length(sequence), 38);
  llama().truncate(sequence, 37);
  EXPECT_EQ(engine_.forward(sequence, std::span(prompt).last(1), 1), before);
}

TEST_F(LlamaTest, ABadTokenChangesNothing) {
  const SequenceId sequence = llama().create();
  const std::vector<TokenId> bad = {1, llama().vocab_size()};
  EXPECT_ERROR(llama().forward(Segment{sequence, bad, 0}, {}), "outside the vocabulary");
  const std::vector<TokenId> negative = {-1};
  EXPECT_ERROR(llama().forward(Segment{sequence, negative, 0}, {}), "token id -1");
  EXPECT_EQ(llama().length(sequence), 0);
}

TEST(LlamaLimits, PositionsBeyondTheModelAreRefused) {
  Engine engine("untied", make_cpu_backend(1), kNoPages, {}, 1, 5000);
  const SequenceId sequence = engine.llama->create();
  const int limit = engine.llama->max_seq_len();
  const auto tokens = random_tokens(limit, engine.llama->vocab_size(), 1);
  engine.forward(sequence, tokens, 0);
  EXPECT_ERROR(engine.forward(sequence, std::span(tokens).first(1), 0),
               fmt::format("exceed the model's {} positions", limit));
  EXPECT_EQ(engine.llama->length(sequence), limit);
}

TEST(LlamaLimits, IdsThatAreNoTokensAreNeverChosen) {
  Engine all("untied", make_cpu_backend(1), 16),
      limited("untied", make_cpu_backend(1), 16, {.token_limit = 7});
  const auto tokens = random_tokens(30, 7, 1);
  const HostRows want = all.prefill(tokens), got = limited.prefill(tokens);
  bool was_chosen = false;
  for (std::size_t r = 0; r < want.size(); r++) {
    EXPECT_TRUE(equal_bits(std::span(got[r]).first(7), std::span(want[r]).first(7)));
    const auto largest = std::ranges::max_element(want[r]) - want[r].begin();
    was_chosen |= largest >= 7;
    for (std::size_t i = 7; i < got[r].size(); i++) EXPECT_EQ(got[r][i], -INFINITY);
  }
  EXPECT_TRUE(was_chosen) << "the case would prove nothing";
}

}  // namespace
}  // namespace specdec
