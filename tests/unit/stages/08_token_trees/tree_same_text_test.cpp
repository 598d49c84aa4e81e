// Where trees promise the same tokens, and not only the same law: one chain is stage 5, draw by
// draw, and so is one model twice; rules that draw the target's own token give the text of plain
// sampling.
#include "stages/05_rejection_sampling/sampling_drafter.h"
#include "stages/08_token_trees/side_by_side_drafter.h"
#include "stages/08_token_trees/tree_drafter.h"
#include "stages/08_token_trees/tree_judge.h"
#include "stages/08_token_trees/tree_round.h"
#include "tests/every_path.h"
#include "tests/tree_steps.h"

namespace specdec {
namespace {

constexpr int kLimit = 320;  // positions, and nodes of a tree

class TreeSameTextTest : public ::testing::Test {
 protected:
  static Engine& target() {
    static Engine engine("target", make_cpu_backend(2), 16);
    return engine;
  }
  static Engine& draft() {
    static Engine engine("draft", make_cpu_backend(2), 16);
    return engine;
  }
  static const std::vector<Text>& prompts() {
    static const std::vector<Text> prompts = {
        {3840, 2451, 296, 264, 2606, 318, 2033, 308, 264, 1132, 1028, 13, 2033, 3413, 316},
        {3840, 982, 1469, 308, 1395, 259, 470, 1656, 2894, 11, 539, 1395, 612, 198},
        random_tokens(9, 3840, 5)};
    return prompts;
  }
  static GenerationRequest request(const Text& prompt) {
    return request_of(prompt, 24, {3841, 3848, 3849});
  }
  static std::vector<SamplingOptions> options() {
    return {{.temperature = 1},
            {.temperature = 0.7, .top_k = 20, .top_p = 0.9},
            {.temperature = 1.2, .repetition_penalty = 1.3}};
  }

  struct Run {
    Text tokens;
    std::vector<Round> rounds;
  };
  static Run sample_trees(const MakeTreeShape& shape, const NamedSiblingRule& rule,
                          const SamplingOptions& options, std::uint64_t seed, const Text& prompt) {
    ModelTreeDrafter drafter(*draft().llama, shape, kLimit, target().llama->vocab_size());
    return sample_trees(drafter, rule, options, seed, prompt);
  }
  static Run sample_trees(Drafter& drafter, const NamedSiblingRule& rule,
                          const SamplingOptions& options, std::uint64_t seed, const Text& prompt) {
    Dice dice(seed);
    SamplingTreeJudge judge(*target().backend, dice,
                            {.sampling = options, .draft_temperature = options.temperature}, rule,
                            std::make_shared<JudgingScratch>(drafter.capacity(8).verified,
                                                             target().llama->vocab_size()));
    DraftAndVerify steps = tree_steps(*target().llama, drafter, 8, kLimit);
    const GenerationRequest asked = request(prompt);
    Generation generation(asked, nullptr);
    Text context = prompt;
    Run run;
    steps.prefill(context);
    while (!generation.finished()) {
      run.rounds.push_back(tree_round(steps, judge, context, generation));
    }
    run.tokens.assign(generation.tokens().begin(), generation.tokens().end());
    return run;
  }
  static SpeculationRun sample_chain(Drafter& drafter, std::string_view rule, int K,
                                     const SamplingOptions& options, std::uint64_t seed,
                                     const Text& prompt) {
    Dice dice(seed);
    const SpeculationOptions speculation{.sampling = options,
                                         .draft_temperature = options.temperature,
                                         .rule = &find_acceptance_rule(rule)};
    return speculate(*target().llama, drafter, K, dice, speculation, request(prompt), kLimit);
  }
};

TEST_F(TreeSameTextTest, OneChainIsStageFive) {
  int accepted = 0;
  for (const std::string_view rule :
       {"rejection", "at-least", "non-iterative", "sample-and-match", "coupled"}) {
    for (const SamplingOptions& sampling : options()) {
      for (std::uint64_t seed = 1; seed <= 3; seed++) {
        const Text& prompt = prompts()[seed % prompts().size()];
        SamplingDrafter drafter(*draft().llama, kLimit);
        const SpeculationRun want = sample_chain(drafter, rule, 4, sampling, seed, prompt);
        const Run got = sample_trees([] { return std::make_unique<Chains>(1, 4); },
                                     find_sibling_rule(rule), sampling, seed, prompt);
        EXPECT_EQ(got.tokens, want.tokens) << rule << ", seed " << seed;
        ASSERT_EQ(got.rounds.size(), want.rounds.size());
        for (std::size_t i = 0; i < want.rounds.size(); i++) {
          EXPECT_EQ(got.rounds[i].start, want.rounds[i].start);
          EXPECT_EQ(got.rounds[i].drafted, want.rounds[i].drafted);
          EXPECT_EQ(got.rounds[i].accepted, want.rounds[i].accepted);
          EXPECT_EQ(got.rounds[i].end, want.rounds[i].end);
          accepted += got.rounds[i].accepted;
        }
      }
    }
  }
  EXPECT_GT(accepted, 100);
}

TEST_F(TreeSameTextTest, RulesThatDrawTheTargetsTokenGiveThePlainText) {
  const MakeTreeShape shapes[] = {
      [] { return std::make_unique<Chains>(3, 3); },
      [] {
        return std::make_unique<DistinctDrafts>(std::vector<int>{2, 2, 1});
      },
      [] {
        return std::make_unique<Likeliest>(plan_of_widths(std::vector<int>{3, 2, 1}));
      },
      [] { return std::make_unique<GrownTree>(10, 3, 4); }};
  int accepted = 0;
  for (const std::string_view rule : {"coupled", "sample-and-match"}) {
    for (const SamplingOptions& sampling : options()) {
      for (std::uint64_t seed = 1; seed <= 2; seed++) {
        const Text& prompt = prompts()[seed % prompts().size()];
        NoDrafter plain;
        const Text want = sample_chain(plain, rule, 1, sampling, seed, prompt).tokens;
        for (const MakeTreeShape& shape : shapes) {
          const Run got = sample_trees(shape, find_sibling_rule(rule), sampling, seed, prompt);
          EXPECT_EQ(got.tokens, want) << rule << ", seed " << seed;
          for (const Round& round : got.rounds) accepted += round.accepted;
        }
      }
    }
  }
  EXPECT_GT(accepted, 100);
}

// Side by side, the same model twice is two of its chains, draw by draw. In a race, both of its
// first drafts share the target's noise, so they are equal.
TEST_F(TreeSameTextTest, OneModelTwiceDraftsTwoChains) {
  const int V = target().llama->vocab_size();
  const auto chains = [](int count) -> MakeTreeShape {
    return [=] { return std::make_unique<Chains>(count, 3); };
  };
  const auto chain = [&] {
    return std::make_shared<ModelTreeDrafter>(*draft().llama, chains(1), kLimit, V);
  };
  int accepted = 0;
  for (const NamedSiblingRule& rule : sibling_rules()) {
    if (rule.rule == nullptr || rule.needs_same_draws || rule.races()) continue;
    for (const SamplingOptions& sampling : options()) {
      SideBySideDrafter twice({chain(), chain()}, 3, V);
      const Run want = sample_trees(chains(2), rule, sampling, 7, prompts()[1]);
      const Run got = sample_trees(twice, rule, sampling, 7, prompts()[1]);
      EXPECT_EQ(got.tokens, want.tokens) << rule.name;
      EXPECT_EQ(got.rounds.size(), want.rounds.size()) << rule.name;
      for (const Round& round : got.rounds) accepted += round.accepted;
    }
  }
  EXPECT_GT(accepted, 50);
}

}  // namespace
}  // namespace specdec
