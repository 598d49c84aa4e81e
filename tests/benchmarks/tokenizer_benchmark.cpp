// Load, encode and decode, with the tokenizer that has Llama 3's exact structure and size. The text
// is the golden lines, a mixture of many scripts, over and over.
#include <fstream>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "common/base/json_value.h"
#include "common/tokenizer/tokenizer.h"

namespace specdec {
namespace {

const Tokenizer& tokenizer() {
  static const Tokenizer instance = Tokenizer::load(SPECDEC_SYNTHETIC_TOKENIZER);
  return instance;
}

// Golden lines without those that spell special tokens, joined by line feeds, repeated.
std::string mixed_text(std::size_t bytes) {
  std::string once;
  std::ifstream file(SPECDEC_GOLDEN_DIR "/tokenizers/lines.jsonl");
  for (std::string line; std::getline(file, line);) {
    const std::string text = Json::parse(line).get<std::string>();
    if (text.find("<|") == std::string::npos) once += text + "\n";
  }
  std::string text;
  while (text.size() < bytes) text += once;
  return text;
}

// What a prompt mostly is: words of a Latin script. Taken from the same lines.
std::string ascii_text(std::size_t bytes) {
  std::string text;
  for (const char c : mixed_text(4 * bytes)) {
    if (static_cast<unsigned char>(c) < 0x80) text.push_back(c);
  }
  return text;
}

void load(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(Tokenizer::load(SPECDEC_SYNTHETIC_TOKENIZER).vocab_size());
  }
}
BENCHMARK(load)->Unit(benchmark::kMillisecond);

void encode(benchmark::State& state, const std::string& text) {
  std::size_t tokens = 0;
  for (auto _ : state) {
    const std::vector<TokenId> ids = tokenizer().encode(text);
    tokens = ids.size();
    benchmark::DoNotOptimize(ids.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
  state.counters["bytes/token"] = static_cast<double>(text.size()) / static_cast<double>(tokens);
}
BENCHMARK_CAPTURE(encode, mixed, mixed_text(4 << 20))->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, ascii, ascii_text(1 << 20))->Unit(benchmark::kMillisecond);
// The worst that one word can be: a heap of candidates as long as the text.
BENCHMARK_CAPTURE(encode, one_letter, std::string(1 << 20, 'a'))->Unit(benchmark::kMillisecond);

void decode(benchmark::State& state) {
  const std::string text = mixed_text(4 << 20);
  const std::vector<TokenId> ids = tokenizer().encode(text);
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer().decode(ids).data());
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}
BENCHMARK(decode)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace specdec

BENCHMARK_MAIN();
