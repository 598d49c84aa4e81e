// Stage 10 against the NumPy oracle's searches on tables: the hypotheses, and the steps of each
// pass (golden/goldens/README.md).
#include <cmath>
#include <sstream>

#include <gtest/gtest.h>

#include "common/base/check.h"
#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "common/checkpoint/elements.h"
#include "common/checkpoint/safetensors.h"
#include "common/golden_folder.h"
#include "tests/table_model.h"
#include "tests/unit/stages/10_beam_search/beam_fixture.h"

namespace specdec {
namespace {

const std::string kFolder = (golden_folder() / "goldens/toy/").string();

// The logits after each last token. tensor: [V, V]
TableModel table(const TensorView& tensor) {
  const auto V = static_cast<std::size_t>(tensor.shape[0]);
  return TableModel(static_cast<int>(V),
                    [logits = to_float32(tensor), V](std::span<const TokenId> prefix) {
                      return std::span(logits).subspan(std::size_t(prefix.back()) * V, V);
                    });
}

EarlyStopping stop_of(const Json& name) {
  if (name == "never") return EarlyStopping::kNever;
  return name == true ? EarlyStopping::kTrue : EarlyStopping::kFalse;
}

AskedBeams asked_of(const Json& line) {
  return {.prompt = line.at("prompt_ids"),
          .max_new_tokens = line.at("max_new_tokens"),
          .eos_ids = line.at("eos_ids"),
          .beams = {.width = line.at("beams"),
                    .length_penalty = line.at("length_penalty"),
                    .early_stopping = stop_of(line.at("early_stopping"))}};
}

// A sum of float64 log-probabilities of logits in float32, whose exponentials are float32.
constexpr double kClose = 1e-5;

void expect_hypotheses(const FoundBeams& found, const Json& wanted) {
  ASSERT_EQ(found.hypotheses.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); i++) {
    EXPECT_EQ(found.hypotheses[i].tokens, wanted[i].at("tokens").get<std::vector<TokenId>>());
    const double score = wanted[i].at("score");
    EXPECT_LE(std::abs(found.hypotheses[i].score - score), kClose * std::abs(score));
  }
}

TEST(BeamSearchGoldenTest, SearchesOnTablesAreTheOracles) {
  const SafetensorsFile file(kFolder + "tables.safetensors");
  std::istringstream text{std::string(read_text_file(kFolder + "beams.jsonl"))};
  int searches = 0, passes = 0;
  for (std::string words; std::getline(text, words); searches++) {
    const Json line = parse_json(words, "beams.jsonl");
    SCOPED_TRACE(line.at("id").get<std::string>());
    const std::string tables = line.at("tables");
    TableModel target = table(file.tensor(tables + ".target_logits"));
    TableModel draft = table(file.tensor(tables + ".draft_logits"));
    ModelBeamDrafter drafter(draft, 64);
    const FoundBeams found =
        search_beams(target, drafter, asked_of(line),
                     {.width = line.at("draft_beams"), .spec_length = line.at("spec_length")});
    expect_hypotheses(found, line.at("hypotheses"));
    std::vector<int> steps;
    for (const BeamRound& round : found.rounds) steps.push_back(int(round.steps.size()));
    EXPECT_EQ(steps, line.at("steps_per_pass").get<std::vector<int>>());
    passes += int(steps.size());
  }
  EXPECT_EQ(searches, 36);
  EXPECT_GT(passes, 300);
}

}  // namespace
}  // namespace specdec
