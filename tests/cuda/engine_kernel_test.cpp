// The engine on a device computes one set of bits, however its kernels are launched: as graphs or
// one by one, early or not, with a wait after each, in pages of any size, and in passes of one
// token or of several. On a GPU a race between two kernels moves, so each way is tried three times.
// The logits are also near those of plain loops.
#include <cstdlib>
#include <optional>

#include "tests/cuda/kernel_test.h"
#include "tests/engine_fixture.h"
#include "tests/kept_checkpoint.h"
#include "tests/test_support.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

#ifdef SPECDEC_EMULATED
constexpr const char* kModel = "untied";
constexpr int kTokens = 40, kTimes = 1;
#else
constexpr const char* kModel = "target";
constexpr int kTokens = 160, kTimes = 3;
#endif
constexpr int kPrompt = 7;

struct EngineCase {
  std::string name;
  WeightFormat format = WeightFormat::kStored;
  std::optional<DType> groups = std::nullopt;  // of the layers of the checkpoint itself
};

class EngineKernel : public KernelTest, public ::testing::WithParamInterface<EngineCase> {
 protected:
  EngineKernel() {
    if (const auto groups = GetParam().groups) {
      write_kept_copy(golden_model(kModel), directory_.path(), *groups);
    }
  }
  LoadedModel loaded_model(std::unique_ptr<Backend> backend = make_device()) const {
    return LoadedModel(GetParam().groups ? directory_.path() : golden_model(kModel),
                       std::move(backend), GetParam().format);
  }
  void TearDown() override {
    for (const char* name : kVariables) unsetenv(name);
    KernelTest::TearDown();
  }

  static constexpr const char* kVariables[] = {"SPECDEC_CUDA_GRAPHS", "SPECDEC_CUDA_EARLY",
                                               "SPECDEC_CUDA_SYNC"};

 private:
  TemporaryDirectory directory_;
};

// Passes of `rows` tokens over the text, after the prompt. Each pass but those of one row begins
// with tokens that are then taken back, as rejected drafts are. Returns the logits of all tokens
// after the prompt.
HostRows decode(const LlamaModel& model, int page_size, int rows) {
  CachedLlama engine(model, page_size, kPrompt + kTokens + 2 * rows);
  Llama& llama = engine.llama;
  const int V = llama.vocab_size();
  const auto text = random_tokens(kPrompt + kTokens, V, 1), wrong = random_tokens(rows, V, 2);
  const LogitsBuffer logits(llama, rows);
  const SequenceId sequence = llama.create();
  const auto forward = [&](std::span<const TokenId> tokens) {
    const int count = static_cast<int>(tokens.size());
    llama.forward(Segment{sequence, tokens, std::min(count, rows)},
                  logits.rows(0, std::min(count, rows)));
  };
  forward(std::span(text).first(kPrompt));
  HostRows all;
  for (int at = kPrompt; at < kPrompt + kTokens; at += rows) {
    const int count = std::min(rows, kPrompt + kTokens - at);
    if (rows > 1) forward(wrong);
    llama.truncate(sequence, at);
    forward(std::span(text).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count)));
    for (std::vector<float>& row : host_rows(llama.backend(), logits.rows(0, count))) {
      all.push_back(std::move(row));
    }
  }
  return all;
}

::testing::AssertionResult same_bits(const HostRows& got, const HostRows& want) {
  if (got.size() != want.size()) return ::testing::AssertionFailure() << got.size() << " rows";
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!equal_bits(got[i], want[i])) return ::testing::AssertionFailure() << "of token " << i;
  }
  return ::testing::AssertionSuccess();
}

TEST_P(EngineKernel, PlainDecodingHasOneSetOfBits) {
  const LoadedModel first = loaded_model();
  const HostRows want = decode(first.model, kNoPages, 1);
  ASSERT_EQ(want.size(), std::size_t{kTokens});
  struct Way {
    const char *variable, *value;
    int page_size;
  };
  const Way ways[] = {{kVariables[0], "1", kNoPages}, {kVariables[0], "1", 16},
                      {kVariables[0], "1", 4},        {kVariables[0], "0", 4},
                      {kVariables[1], "0", 4},        {kVariables[2], "1", 16}};
  for (int time = 0; time < kTimes; ++time) {
    for (const auto& [variable, value, page_size] : ways) {
      setenv(variable, value, 1);
      const LoadedModel loaded = loaded_model();
      EXPECT_TRUE(same_bits(decode(loaded.model, page_size, 1), want))
          << variable << "=" << value << ", page size " << page_size << ", time " << time;
      unsetenv(variable);
    }
  }
}

// All in one backend, so that graphs of several shapes take turns.
TEST_P(EngineKernel, VerificationHasTheBitsOfDecoding) {
  const LoadedModel loaded = loaded_model();
  const HostRows want = decode(loaded.model, kNoPages, 1);
  for (int time = 0; time < kTimes; ++time) {
    for (const int K : {1, 3, 5, 7, 15}) {
      EXPECT_TRUE(same_bits(decode(loaded.model, 4, K + 1), want))
          << "K = " << K << ", time " << time;
    }
  }
}

TEST_P(EngineKernel, TheLogitsAreNearThoseOfPlainLoops) {
  const LoadedModel loaded = loaded_model(), plain = loaded_model(make_plain_backend());
  const HostRows got = decode(loaded.model, kNoPages, 1), want = decode(plain.model, kNoPages, 1);
  double error = 0, norm = 0;
  for (std::size_t t = 0; t < want.size(); ++t) {
    for (std::size_t i = 0; i < want[t].size(); ++i) {
      error += std::pow(double{got[t][i]} - double{want[t][i]}, 2);
      norm += std::pow(double{want[t][i]}, 2);
    }
  }
  EXPECT_LE(std::sqrt(error / norm), 1e-5);
}

// The control: another token in the prompt gives other bits everywhere.
TEST_P(EngineKernel, TheBitsDependOnTheText) {
  const LoadedModel loaded = loaded_model();
  CachedLlama engine(loaded.model, 4, 8);
  const LogitsBuffer logits(engine.llama, 1);
  std::vector<HostRows> found;
  for (const TokenId first : {1, 2}) {
    const std::vector<TokenId> text = {first, 3, 4};
    const SequenceId sequence = engine.llama.create();
    engine.llama.forward(Segment{sequence, text, 1}, logits.rows(0, 1));
    found.push_back(host_rows(engine.llama.backend(), logits.rows(0, 1)));
    engine.llama.release(sequence);
  }
  EXPECT_FALSE(same_bits(found[0], found[1]));
}

INSTANTIATE_TEST_SUITE_P(Formats, EngineKernel,
                         ::testing::Values(EngineCase{"stored"},
                                           EngineCase{"q4", WeightFormat::kQ4},
                                           EngineCase{.name = "q4_1", .groups = DType::kQ4_1},
                                           EngineCase{.name = "q8_0", .groups = DType::kQ8_0}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
