// Inflated models against transformers' greedy tokens of the embedded pair, on every kind of text,
// and their logits against those of the models as they are.
#include <cmath>
#include <fstream>
#include <set>

#include "common/base/json.h"
#include "common/checkpoint/checkpoint.h"
#include "common/golden_folder.h"
#include "common/inflation/inflated_config.h"
#include "common/inflation/inflated_weights.h"
#include "tests/engine_fixture.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

// The first line of each kind in greedy.jsonl. Both models have seen the same text.
struct Golden {
  std::string kind;
  std::vector<TokenId> prompt, tokens, draft_tokens;
};

std::vector<Golden> read_goldens() {
  const auto path = golden_folder() / "goldens" / "target" / "greedy.jsonl";
  std::ifstream file(path);
  std::vector<Golden> goldens;
  std::set<std::string> kinds;
  for (std::string line; std::getline(file, line);) {
    const Json json = parse_json(line, path.string());
    if (!kinds.insert(json.at("kind")).second) continue;
    goldens.push_back(
        {json.at("kind"), json.at("prompt_ids"), json.at("tokens"), json.at("draft_tokens")});
  }
  EXPECT_EQ(goldens.size(), 8u);
  return goldens;
}

constexpr int kTokenLimit = 4096;  // entries of the embedded tokenizer

// A model with a cache of its own.
struct Model {
  Model(const WeightSource& source, Backend& backend)
      : weights(source, backend),
        cache(backend, weights.kv_shape(), 1, 320),
        llama(weights, cache, {.token_limit = kTokenLimit}) {}

  // The logits from which the tokens after the prompt are chosen.
  HostRows logits(std::span<const TokenId> prompt, std::span<const TokenId> tokens) {
    std::vector<TokenId> text(prompt.begin(), prompt.end());
    text.insert(text.end(), tokens.begin(), tokens.end() - 1);
    const auto n = static_cast<int>(tokens.size());
    const LogitsBuffer buffer(llama, n);
    const SequenceId sequence = llama.create();
    llama.forward(Segment{sequence, text, n}, buffer.rows(0, n));
    llama.release(sequence);
    return host_rows(weights.backend(), buffer.rows(0, n));
  }

  LlamaModel weights;
  ContiguousKvCache cache;
  Llama llama;
};

struct Case {
  std::string name, model, shape;  // shape: empty is an odd one of its own
  std::size_t n_tokens;
};

class InflationGoldenTest : public ::testing::TestWithParam<Case> {
 protected:
  // Every size odd, and none a multiple of what the kernels work in.
  std::string odd_shape(const std::string& model) {
    Json config = parse_json(read_text_file(golden_model(model) / "config.json"), model);
    const bool target = model == "target";
    config.update({{"hidden_size", target ? 317 : 201},
                   {"intermediate_size", target ? 1001 : 333},
                   {"num_hidden_layers", target ? 8 : 3},
                   {"num_attention_heads", target ? 6 : 12},
                   {"num_key_value_heads", target ? 2 : 3},
                   {"vocab_size", 4501}});
    return directory_.write("config.json", config.dump()).string();
  }

  TemporaryDirectory directory_;
};

TEST_P(InflationGoldenTest, WritesTheSameText) {
  const auto& [name, model, shape, n_tokens] = GetParam();
  const auto backend = make_cpu_backend(2);
  const Checkpoint checkpoint(golden_model(model));
  const LlamaConfig config = inflated_config(
      checkpoint.config(), shape.empty() ? odd_shape(model) : shape, "--inflate-" + model);
  Model base(checkpoint, *backend), inflated(InflatedWeights(checkpoint, config, 2), *backend);
  for (const Golden& golden : read_goldens()) {
    SCOPED_TRACE(golden.kind);
    const std::size_t n = std::min(n_tokens, golden.tokens.size());
    const auto text = std::span(golden.tokens).first(n);
    const auto chosen = std::span(model == "target" ? golden.tokens : golden.draft_tokens).first(n);
    const HostRows want = base.logits(golden.prompt, text),
                   got = inflated.logits(golden.prompt, text);
    for (std::size_t i = 0; i < n; i++) {
      ASSERT_EQ(std::ssize(got[i]), config.vocab_size);
      double error = 0, norm = 0;
      for (std::size_t v = 0; v < got[i].size(); v++) {
        if (v >= kTokenLimit) {
          ASSERT_EQ(got[i][v], -HUGE_VALF) << "no token";
          continue;
        }
        error += std::pow(double{got[i][v]} - want[i][v], 2);
        norm += std::pow(double{want[i][v]}, 2);
      }
      ASSERT_LE(std::sqrt(error / norm), 1e-5) << i;
      ASSERT_EQ(std::ranges::max_element(got[i]) - got[i].begin(), chosen[i]) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, InflationGoldenTest,
                         ::testing::Values(Case{"target_odd", "target", "", 200},
                                           Case{"draft_odd", "draft", "", 200},
                                           Case{"target_134m", "target", "134m", 8},
                                           Case{"draft_14m", "draft", "14m", 100}),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace specdec
