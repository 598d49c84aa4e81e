// Filters and draws against those of the NumPy oracle (golden/goldens/README.md).
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "common/checkpoint/elements.h"
#include "common/checkpoint/safetensors.h"
#include "common/sampling/distribution.h"
#include "common/sampling/uniform.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

std::vector<Json> read_lines(const std::string& name) {
  const std::string path = fmt::format("{}/goldens/toy/{}", SPECDEC_GOLDEN_DIR, name);
  std::istringstream text{std::string(read_text_file(path))};
  std::vector<Json> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(parse_json(line, path));
  return lines;
}

// The files hold nine digits. A penalised score is a float32, off by up to 2^-24 of its size, which
// is below 16 here: that shifts a token's weight, and the sum of all weights.
void expect_prob(double got, double want, const SamplingOptions& options) {
  const double penalised = options.repetition_penalty == 1 ? 0 : 2 * 16 * 0x1p-24;
  EXPECT_TRUE(std::abs(got - want) <=
              (5e-9 + penalised / std::max(options.temperature, 0x1p-24)) * want)
      << got << ", want " << want;
}

TEST(SamplingGoldenTest, FiltersMakeTheOraclesDistributions) {
  const auto lines = read_lines("filters.jsonl");
  EXPECT_EQ(lines.size(), 48u);
  for (const Json& line : lines) {
    SCOPED_TRACE(line.dump());
    const auto logits = line.at("logits").get<std::vector<float>>();
    const SamplingOptions options{line.at("temperature"), line.at("top_k"), line.at("top_p"),
                                  line.at("repetition_penalty")};
    SamplingScratch scratch(static_cast<int>(logits.size()));
    std::vector<double> probs(logits.size());
    probabilities(logits, line.at("history").get<std::vector<TokenId>>(), options, scratch, probs);
    const auto want = line.at("probs").get<std::vector<double>>();
    ASSERT_EQ(probs.size(), want.size());
    for (std::size_t i = 0; i < want.size(); i++) expect_prob(probs[i], want[i], options);
  }
}

TEST(SamplingGoldenTest, UniformsAreTheOracles) {
  const std::map<std::string, Purpose> purposes = {{"draft", Purpose::kDraft},
                                                   {"accept", Purpose::kAccept},
                                                   {"resample", Purpose::kResample},
                                                   {"target", Purpose::kTarget},
                                                   {"race", Purpose::kRace}};
  const auto lines = read_lines("uniforms.jsonl");
  EXPECT_EQ(lines.size(), 96u);
  for (const Json& line : lines) {
    EXPECT_EQ(uniform(line.at("seed"), line.at("position"), purposes.at(line.at("purpose")),
                      line.at("index")),
              line.at("uniform").get<double>())
        << line.dump();
  }
}

// A row of logits for each last token, in place of a model.
struct Table {
  std::vector<float> logits;  // [V, V]
  std::size_t V;

  Table(const SafetensorsFile& file, const std::string& name)
      : logits(to_float32(file.tensor(name))),
        V(static_cast<std::size_t>(file.tensor(name).shape[0])) {}
  std::span<const float> row(TokenId token) const {
    return std::span(logits).subspan(static_cast<std::size_t>(token) * V, V);
  }
};

// Draws again what a recorded draw drew after the context.
void expect_draw(const Table& table, const std::vector<TokenId>& context,
                 const SamplingOptions& options, std::uint64_t seed, Purpose purpose,
                 const Json& draw) {
  SamplingScratch scratch(static_cast<int>(table.V));
  std::vector<double> probs(table.V);
  probabilities(table.row(context.back()), context, options, scratch, probs);
  const double u = uniform(seed, static_cast<int>(context.size()), purpose);
  EXPECT_EQ(u, draw.at("uniform").get<double>());
  const TokenId token = sample(probs, u);
  EXPECT_EQ(token, draw.at("token").get<TokenId>());
  expect_prob(probs[static_cast<std::size_t>(token)], draw.at("prob"), options);
}

// The drafts and bonus tokens of a recorded round. The history grows with the drafts. Returns how
// many draws there were.
int expect_round(const Table& target, const Table& draft, std::vector<TokenId> context,
                 const Json& options, const Json& round) {
  SamplingOptions sampling{options.at("draft_temperature"), options.at("top_k"),
                           options.at("top_p"), options.at("repetition_penalty")};
  const std::uint64_t seed = options.at("seed");
  int draws = 0;
  for (const Json& drawn : round.at("drafts")) {
    expect_draw(draft, context, sampling, seed, Purpose::kDraft, drawn);
    context.push_back(drawn.at("token"));
    draws++;
  }
  const Json& last = round.at("last");
  if (last.is_null() || last.at("purpose") != "target") return draws;
  sampling.temperature = options.at("temperature");
  expect_draw(target, context, sampling, seed, Purpose::kTarget, last);
  return draws + 1;
}

// What correction tokens are drawn from depends on both models; stage 5's tests replay those.
TEST(SamplingGoldenTest, DraftsAndBonusTokensAreTheOracles) {
  const SafetensorsFile file(SPECDEC_GOLDEN_DIR "/goldens/toy/tables.safetensors");
  const auto runs = read_lines("sampling.jsonl");
  EXPECT_EQ(runs.size(), 34u);
  int draws = 0;
  for (const Json& run : runs) {
    SCOPED_TRACE(run.at("id").dump());
    const std::string tables = run.at("tables");
    const Table target(file, tables + ".target_logits"), draft(file, tables + ".draft_logits");
    auto tokens = run.at("prompt_ids").get<std::vector<TokenId>>();
    for (const Json& round : run.at("rounds")) {
      draws += expect_round(target, draft, tokens, run.at("options"), round);
      for (const TokenId token : round.at("emitted")) tokens.push_back(token);
    }
  }
  EXPECT_GT(draws, 1000);
}

}  // namespace
}  // namespace specdec
