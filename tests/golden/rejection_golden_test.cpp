// Stage 5 against the NumPy oracle's recorded runs, decision by decision
// (golden/goldens/README.md).
#include <map>
#include <sstream>

#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "common/checkpoint/elements.h"
#include "common/checkpoint/safetensors.h"
#include "common/golden_folder.h"
#include "common/run_stats.h"
#include "common/speculation/count_round.h"
#include "stages/05_rejection_sampling/sampling_drafter.h"
#include "tests/every_path.h"
#include "tests/table_model.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

// Throws dice, and writes down what they said.
class Recorder final : public RandomSource {
 public:
  struct Draw {
    int position;
    Purpose purpose;
    TokenId token;       // -1: an accept test
    double probability;  // of the token, or to accept
    bool accepted;
  };

  explicit Recorder(std::uint64_t seed) : dice_(seed) {}

  TokenId token(std::span<const double> probs, int position, Purpose purpose, int index) override {
    const TokenId token = dice_.token(probs, position, purpose, index);
    double total = 0;
    for (const double prob : probs) total += prob;
    draws.push_back(
        {position, purpose, token, probs[static_cast<std::size_t>(token)] / total, false});
    return token;
  }
  bool accept(double probability, int position, int index) override {
    const bool accepted = dice_.accept(probability, position, index);
    draws.push_back({position, Purpose::kAccept, -1, probability, accepted});
    return accepted;
  }
  TokenId race(std::span<const double>, int) override {
    ADD_FAILURE() << "Algorithm 1 has no races";
    return 0;
  }

  std::vector<Draw> draws;  // of the round

 private:
  Dice dice_;
};

constexpr const char* kPurposes[] = {"draft", "accept", "resample", "target"};

// How far a probability may be from the recorded one.
struct Tolerance {
  double relative, absolute;
  bool accepts(double got, double want) const {
    return std::abs(got - want) <= relative * want + absolute;
  }
};

// A run as it is replayed, beside its record.
class Replay {
 public:
  Replay(const Json& run, const Tolerance& tolerance)
      : run_(run), tolerance_(tolerance), recorder_(run.at("options").at("seed")) {}

  void check(LanguageModel& target, Drafter& drafter) {
    const Json& options = run_.at("options");
    const SpeculationOptions speculation{{options.at("temperature"), options.at("top_k"),
                                          options.at("top_p"), options.at("repetition_penalty")},
                                         options.at("draft_temperature")};
    GenerationRequest request =
        request_of(run_.at("prompt_ids"), options.at("max_new_tokens"), run_.at("eos_ids"));
    DraftAndVerify steps(target, drafter, fixed_spec_length(options.at("spec_length")),
                         options.at("context_limit"),
                         Drafts(options.at("spec_length"), target.vocab_size()));
    const SpeculationRun result =
        speculate(steps, recorder_, speculation, request,
                  [&](const Round& round, const DraftAndVerify& parts, const Judge& judge) {
                    ASSERT_LT(rounds_, run_.at("rounds").size());
                    SCOPED_TRACE(fmt::format("round {}", rounds_));
                    check_round(run_.at("rounds").at(rounds_++), round, parts, judge);
                    recorder_.draws.clear();
                  });
    EXPECT_EQ(rounds_, run_.at("rounds").size());
    EXPECT_EQ(result.tokens, run_.at("tokens").get<Text>());
    EXPECT_EQ(finish_reason_name(result.finish_reason),
              run_.at("finish_reason").get<std::string>());
    check_counts(result.rounds);
  }

  int decisions() const { return decisions_; }

 private:
  void check_round(const Json& want, const Round& round, const DraftAndVerify& steps,
                   const Judge& judge) {
    EXPECT_EQ(round.start, want.at("start"));
    EXPECT_EQ(round.drafted, want.at("spec_length"));
    EXPECT_EQ(round.accepted, want.at("accepted"));
    EXPECT_EQ(round.emitted(), std::ssize(want.at("emitted")));
    EXPECT_EQ(round.tested(), std::ssize(want.at("tests")));
    EXPECT_EQ(round.end == RoundEnd::kStopped, want.at("last").is_null());
    EXPECT_EQ(round.target_length(), want.at("target_length"));
    EXPECT_EQ(steps.target().length(steps.sequence()), want.at("target_length"));
    EXPECT_EQ(round.draft_length(), want.at("draft_length"));
    const int draft_length = steps.drafter().length(steps.draft_sequence());
    if (round.drafted > 0) {
      EXPECT_EQ(draft_length, want.at("draft_length"));
    } else {
      EXPECT_LE(draft_length, want.at("draft_length").get<int>())
          << "a plain step feeds the draft nothing";
    }
    check_drafts(want.at("drafts"), steps.drafts());
    check_tests(want.at("tests"), steps, judge);
    check_last(want.at("last"));
  }

  // The counts of the whole run. What was drafted behind a stop counts nowhere, and the bonus is no
  // accepted draft.
  void check_counts(const std::vector<Round>& rounds) {
    RunStats got;
    std::int64_t drafted = 0, tested = 0, accepted = 0;
    for (const Round& round : rounds) count_round(got, round);
    for (const Json& round : run_.at("rounds")) {
      tested += std::ssize(round.at("tests"));
      accepted += round.at("accepted").get<std::int64_t>();
      drafted += round.at(round.at("last").is_null() ? "accepted" : "spec_length").get<int>();
    }
    EXPECT_EQ(got.rounds, std::ssize(run_.at("rounds")));
    EXPECT_EQ(got.counted, drafted);
    EXPECT_EQ(got.tested, tested);
    EXPECT_EQ(got.accepted, accepted);
    EXPECT_EQ(got.emitted, std::ssize(run_.at("tokens")));
    EXPECT_TRUE(got.sum_acceptance_prob >= 0 &&
                got.sum_acceptance_prob <= static_cast<double>(tested) + 1e-9);
  }

  void check_drafts(const Json& want, const Drafts& drafts) {
    ASSERT_EQ(drafts.size(), std::ssize(want));
    const auto draws = of({Purpose::kDraft});
    const bool certain = drafts.size() > 0 && drafts.probs(0).empty();
    ASSERT_EQ(draws.size(), certain ? 0 : want.size()) << "what is certain draws nothing";
    for (std::size_t i = 0; i < want.size(); i++) {
      EXPECT_EQ(drafts.token(static_cast<int>(i)), want[i].at("token"));
      if (certain) {
        EXPECT_EQ(want[i].at("prob"), 1.0);
      } else {
        check_draw(want[i], draws[i]);
      }
    }
  }

  void check_tests(const Json& want, const DraftAndVerify& steps, const Judge& judge) {
    const auto draws = of({Purpose::kAccept});
    ASSERT_EQ(draws.size(), want.size());
    for (std::size_t i = 0; i < want.size(); i++) {
      const auto row = static_cast<int>(i);
      const auto token = want[i].at("token").get<std::size_t>();
      const std::span<const double> draft_probs = steps.drafts().probs(row);
      EXPECT_EQ(draws[i].accepted, want[i].at("accepted"));
      check_name(want[i], draws[i]);
      check_prob(judge.target_probs(row)[token], want[i].at("target_prob"));
      check_prob(draft_probs.empty() ? 1 : draft_probs[token], want[i].at("draft_prob"));
    }
  }

  void check_last(const Json& want) {
    const auto draws = of({Purpose::kResample, Purpose::kTarget});
    ASSERT_EQ(draws.size(), want.is_null() ? 0u : 1u);
    if (!want.is_null()) check_draw(want, draws[0]);
  }

  void check_draw(const Json& want, const Recorder::Draw& draw) {
    check_name(want, draw);
    EXPECT_EQ(draw.token, want.at("token"));
    check_prob(draw.probability, want.at("prob"));
  }

  void check_name(const Json& want, const Recorder::Draw& draw) {
    EXPECT_EQ(draw.position, want.at("position"));
    EXPECT_EQ(kPurposes[static_cast<int>(draw.purpose)], want.at("purpose").get<std::string>());
    EXPECT_EQ(uniform(run_.at("options").at("seed"), draw.position, draw.purpose),
              want.at("uniform"));
    decisions_++;
  }

  void check_prob(double got, double want) {
    EXPECT_TRUE(tolerance_.accepts(got, want)) << got << ", want " << want;
  }

  std::vector<Recorder::Draw> of(std::initializer_list<Purpose> purposes) const {
    std::vector<Recorder::Draw> draws;
    for (const Recorder::Draw& draw : recorder_.draws) {
      if (std::ranges::find(purposes, draw.purpose) != purposes.end()) draws.push_back(draw);
    }
    return draws;
  }

  const Json& run_;
  Tolerance tolerance_;
  Recorder recorder_;
  std::size_t rounds_ = 0;
  int decisions_ = 0;
};

std::vector<Json> runs(const std::string& folder) {
  const std::string path = golden_folder().string() + "/goldens/" + folder + "/sampling.jsonl";
  std::istringstream text{std::string(read_text_file(path))};
  std::vector<Json> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(parse_json(line, path));
  return lines;
}

// A table of the golden file: the logits after each last token.
TableModel table(const SafetensorsFile& file, const std::string& name, int max_seq_len) {
  const TensorView& tensor = file.tensor(name);
  const auto V = static_cast<std::size_t>(tensor.shape[0]);
  return TableModel(
      static_cast<int>(V),
      [logits = to_float32(tensor), V](std::span<const TokenId> prefix) {
        return std::span(logits).subspan(static_cast<std::size_t>(prefix.back()) * V, V);
      },
      max_seq_len);
}

// The oracle has the same float32 logits and computes in float64, too; the file holds nine digits.
// A probability of a residual is a difference of numbers up to 1: so the absolute part. A penalised
// score is a float32 here: below 16, so off by up to 16 x 2^-24, and temperatures are at least 0.8.
TEST(RejectionGoldenTest, RunsOnTablesAreTheOracles) {
  const SafetensorsFile file(golden_folder().string() + "/goldens/toy/tables.safetensors");
  const std::vector<Json> lines = runs("toy");
  EXPECT_EQ(lines.size(), 34u);
  int decisions = 0;
  for (const Json& line : lines) {
    SCOPED_TRACE(line.at("id").get<std::string>());
    const std::string tables = line.at("tables");
    const Json& options = line.at("options");
    TableModel target = table(file, tables + ".target_logits", options.at("context_limit"));
    TableModel draft = table(file, tables + ".draft_logits", options.at("draft_context_limit"));
    SamplingDrafter drafter(draft, 128);
    const bool penalised = options.at("repetition_penalty") != 1;
    Replay replay(line, penalised ? Tolerance{3e-6, 3e-6} : Tolerance{5e-9, 1e-13});
    replay.check(target, drafter);
    decisions += replay.decisions();
  }
  EXPECT_GT(decisions, 2000);
}

// The oracle's logits are float64's, the engine's float32's. At the manifest's tolerance, 1e-5 of
// their norm, logits of about 20 differ by up to 2e-4, and so do, relatively, probabilities;
// temperature and residuals add to it.
TEST(RejectionGoldenTest, RunsOfTheEmbeddedPairAreTheOracles) {
  Engine target("target", make_cpu_backend(2), 16), draft("draft", make_cpu_backend(2), 16);
  SamplingDrafter drafter(*draft.llama, 320);
  const std::vector<Json> lines = runs("target");
  EXPECT_EQ(lines.size(), 32u);
  int decisions = 0;
  for (const Json& line : lines) {
    SCOPED_TRACE(line.at("id").get<std::string>());
    EXPECT_EQ(line.at("options").at("draft_context_limit"), draft.llama->max_seq_len());
    Replay replay(line, {5e-4, 1e-6});
    replay.check(*target.llama, drafter);
    decisions += replay.decisions();
  }
  EXPECT_GT(decisions, 1000);
}

}  // namespace
}  // namespace specdec
