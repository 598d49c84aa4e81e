// Greedy speculation against transformers: the tokens of greedy.jsonl for every K, and every round
// as it follows from where the file's target and draft agree.
#include <cstdlib>
#include <fstream>
#include <set>

#include "common/base/json.h"
#include "common/golden_folder.h"
#include "tests/speculation_fixture.h"

namespace specdec {
namespace {

constexpr int kMaxNewTokens = 200;  // of the file
constexpr int kAllSpecLengths[] = {1, 2, 3, 4, 5, 6, 7, 8, 16};
constexpr int kAllPageSizes[] = {kNoPages, 1, 3, 16};

// A line of greedy.jsonl.
struct Golden {
  std::string id;
  std::vector<TokenId> prompt, tokens, draft_tokens;
  FinishReason finish_reason = FinishReason::kLength;

  std::vector<bool> agrees() const {
    std::vector<bool> result(tokens.size());
    for (std::size_t i = 0; i < tokens.size(); i++) result[i] = tokens[i] == draft_tokens.at(i);
    return result;
  }
};

std::vector<Golden> read_goldens() {
  const auto path = golden_folder() / "goldens" / "target" / "greedy.jsonl";
  std::ifstream file(path);
  std::vector<Golden> goldens;
  for (std::string line; std::getline(file, line);) {
    const Json json = parse_json(line, path.string());
    goldens.push_back(
        {json.at("id"), json.at("prompt_ids"), json.at("tokens"), json.at("draft_tokens"),
         json.at("finish_reason") == "stop" ? FinishReason::kStop : FinishReason::kLength});
  }
  return goldens;
}

class GreedySpeculationGoldenTest : public ::testing::TestWithParam<int> {
 protected:
  GreedySpeculationGoldenTest() : target_("target"), draft_("draft"), goldens_(read_goldens()) {
    EXPECT_EQ(goldens_.size(), 64u);
  }

  // Runs a prompt and checks tokens, rounds, cached lengths and drafts.
  void check(const Golden& golden, int spec_length, int page_size) {
    SCOPED_TRACE(fmt::format("{}, K {}, pages of {}", golden.id, spec_length, page_size));
    const int room = static_cast<int>(golden.prompt.size()) + kMaxNewTokens + spec_length;
    SpeculationPair pair(target_.model, draft_.model, page_size, room);
    const Asked request = ids_request(golden.prompt, kMaxNewTokens, target_.model.config().eos_ids);
    const Outcome outcome = speculate_greedily(pair.target.llama, pair.drafter, request,
                                               spec_length, pair.target.llama.max_seq_len());
    EXPECT_EQ(outcome.tokens, golden.tokens);
    EXPECT_EQ(outcome.finish_reason, golden.finish_reason);
    expect_rounds(outcome, expected_rounds(static_cast<int>(golden.prompt.size()), golden.agrees(),
                                           {.spec_length = spec_length}));
    check_drafts(outcome, golden);
    rounds_ += std::ssize(outcome.rounds);
    accepted_ += outcome.stats.accepted;
  }

  // What the draft proposed. Behind a rejection it goes on from its own draft, which the file does
  // not know; so up to there.
  static void check_drafts(const Outcome& outcome, const Golden& golden) {
    std::size_t emitted = 0;
    for (const CheckedRound& record : outcome.rounds) {
      const auto known = static_cast<std::size_t>(record.round.tested());
      for (std::size_t i = 0; i < known && i < record.drafts.size(); i++) {
        EXPECT_EQ(record.drafts[i], golden.draft_tokens.at(emitted + i)) << "after " << emitted;
      }
      emitted += static_cast<std::size_t>(record.round.emitted());
    }
    EXPECT_EQ(emitted, golden.tokens.size());
  }

  LoadedModel target_, draft_;
  std::vector<Golden> goldens_;
  std::int64_t rounds_ = 0, accepted_ = 0;
};

TEST_F(GreedySpeculationGoldenTest, EveryPrompt) {
  for (const Golden& golden : goldens_) check(golden, 5, 16);
  EXPECT_GT(accepted_, 3000) << "most of the 6,807 tokens: or little was tested";
  EXPECT_GT(rounds_, 1000);
}

// K adapts, by the costs of a cheap draft, a dear one, and rows that cost: another K in many
// rounds, and the same text.
TEST_F(GreedySpeculationGoldenTest, EveryCostWhereKAdapts) {
  const auto costs = [](double c, double slope) {
    std::vector<double> result;
    for (int K = 0; K <= 16; K++) result.push_back(K * c + 1 + slope * K);
    return result;
  };
  std::vector<std::set<int>> seen;
  for (const auto& round_costs : {costs(0.02, 0), costs(0.55, 0), costs(0.2, 0.4), costs(0.1, 2)}) {
    seen.emplace_back();
    for (std::size_t i = 0; i < goldens_.size(); i += 6) {
      const Golden& golden = goldens_[i];
      const int room = static_cast<int>(golden.prompt.size()) + kMaxNewTokens + 16;
      SpeculationPair pair(target_.model, draft_.model, 16, room);
      const Asked request =
          ids_request(golden.prompt, kMaxNewTokens, target_.model.config().eos_ids);
      const Outcome outcome = speculate_greedily(pair.target.llama, pair.drafter, request, 16,
                                                 pair.target.llama.max_seq_len(), {}, round_costs);
      EXPECT_EQ(outcome.tokens, golden.tokens) << golden.id;
      EXPECT_EQ(outcome.finish_reason, golden.finish_reason);
      check_drafts(outcome, golden);
      for (const CheckedRound& record : outcome.rounds) seen.back().insert(record.round.drafted);
    }
  }
  EXPECT_TRUE(seen[0].contains(16));
  EXPECT_TRUE(seen[1].contains(0) && seen[1].contains(2)) << "plain steps, and not only";
  EXPECT_TRUE(seen[2].contains(0) && seen[2].contains(1));
  EXPECT_EQ(seen[3], std::set<int>{0}) << "nothing pays, so nothing is probed";
}

// By K: every cache, on three texts that an eos ends and one that does not end.
TEST_P(GreedySpeculationGoldenTest, EveryCache) {
  int checked = 0, at_length = 0;
  for (const Golden& golden : goldens_) {
    const bool stops = golden.finish_reason == FinishReason::kStop;
    const auto size = golden.tokens.size();
    if (golden.prompt.size() > 100 || (stops ? size < 30 || checked == 3 : at_length == 1))
      continue;
    (stops ? checked : at_length)++;
    for (const int page_size : kAllPageSizes) check(golden, GetParam(), page_size);
  }
  EXPECT_EQ(checked, 3);
  EXPECT_EQ(at_length, 1);
}

TEST_P(GreedySpeculationGoldenTest, EveryPromptAndCache) {
  if (std::getenv("SPECDEC_FULL") == nullptr) {
    GTEST_SKIP() << "64 prompts x 4 caches for each K take minutes: set SPECDEC_FULL=1";
  }
  for (const Golden& golden : goldens_) {
    for (const int page_size : kAllPageSizes) check(golden, GetParam(), page_size);
  }
}

INSTANTIATE_TEST_SUITE_P(SpecLengths, GreedySpeculationGoldenTest,
                         ::testing::ValuesIn(kAllSpecLengths),
                         [](const auto& param) { return fmt::format("K{}", param.param); });

}  // namespace
}  // namespace specdec
