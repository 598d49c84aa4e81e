// Any bytes as golden texts and as recorded runs: an Error of one line, or what the model can say.
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "common/base/error.h"
#include "stages/programs/check/golden_text.h"
#include "stages/programs/run/options.h"
#include "stages/programs/sampling/golden_run.h"

using namespace specdec;

namespace {

LlamaConfig small_config() {
  LlamaConfig config;
  config.vocab_size = 4096;
  config.max_seq_len = 64;
  return config;
}

void check_tokens(std::span<const TokenId> tokens, const LlamaConfig& config) {
  for (const TokenId token : tokens) {
    SPECDEC_CHECK(token >= 0 && token < config.vocab_size, "a token of the vocabulary");
  }
}

void check_texts(std::string_view text, const LlamaConfig& config) {
  for (const GoldenText& golden : parse_golden_texts(text, "greedy.jsonl", config)) {
    check_tokens(golden.prompt, config);
    check_tokens(golden.tokens(), config);
    check_tokens(golden.draft_tokens, config);
    SPECDEC_CHECK(!golden.prompt.empty() && !golden.steps.empty(), "a prompt and a step");
  }
}

void check_runs(std::string_view text, const LlamaConfig& config) {
  for (const GoldenRun& run : parse_golden_runs(text, "sampling.jsonl", config)) {
    check_tokens(run.generation.prompt, config);
    check_tokens(run.tokens, config);
    check_speculation_options(run.speculation);
    SPECDEC_CHECK(kSpecLengths.has(run.spec_length), "a K in range");
    for (const GoldenRound& round : run.rounds) {
      SPECDEC_CHECK(std::ssize(round.drafts) == round.spec_length, "a token for each draft");
    }
  }
}

template <typename Check>
void expect_one_line(const Check& check) {
  try {
    check();
  } catch (const Error& error) {
    SPECDEC_CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos, "one line");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const LlamaConfig config = small_config();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  expect_one_line([&] { check_texts(text, config); });
  expect_one_line([&] { check_runs(text, config); });
  return 0;
}
