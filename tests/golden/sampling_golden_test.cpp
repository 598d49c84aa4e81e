// Filters and uniforms against those of the NumPy oracle (golden/goldens/README.md).
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "common/golden_folder.h"
#include "common/sampling/distribution.h"
#include "common/sampling/uniform.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

std::vector<Json> read_lines(const std::string& name) {
  const std::string path = (golden_folder() / "goldens/toy" / name).string();
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

}  // namespace
}  // namespace specdec
