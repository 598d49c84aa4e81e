// Where stage 5 promises the same tokens, and not only the same law: greedy targets, rules that
// draw the target's own token, and one seed on any cache, thread count and prefill.
#include "stages/04_greedy_speculation/greedy_speculation.h"
#include "stages/05_rejection_sampling/sampling_drafter.h"
#include "tests/every_path.h"
#include "tests/table_model.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

constexpr int kLimit = 320;  // positions

// The beginnings of held-out texts.
const std::vector<Text>& prompts() {
  static const std::vector<Text> prompts = {
      {3840, 2451, 296, 264, 2606, 318, 2033, 308, 264, 1132, 1028, 13, 2033, 3413, 316},
      {3840, 982, 1469, 308, 1395, 259, 470, 1656, 2894, 11, 539, 1395, 612, 198},
      {3840, 3288, 1646, 1325, 375, 220, 20, 259, 649, 456, 304},
      random_tokens(9, 3840, 5)};
  return prompts;
}

// Proposes tokens without looking, certain of each: the worst drafter there is.
class BlindDrafter final : public Drafter {
 public:
  explicit BlindDrafter(int vocab_size) : vocab_size_(vocab_size) {}
  SequenceId create() override { return 0; }
  void release(SequenceId) override {}
  void draft(std::span<const DraftRequest> requests) override {
    for (const DraftRequest& request : requests) {
      request.drafts->clear();
      for (int i = 0; i < request.spec_length; i++) {
        request.drafts->add_certain(static_cast<TokenId>(random_() % unsigned(vocab_size_)));
      }
    }
  }
  void truncate(SequenceId, int) override {}
  int length(SequenceId) const override { return 0; }

 private:
  int vocab_size_;
  std::mt19937 random_{1};
};

// Aborts where anything is left to random.
class NoRandomness final : public RandomSource {
 public:
  TokenId token(std::span<const double> probs, int, Purpose, int) override {
    return certain(probs);
  }
  bool accept(double probability, int, int) override {
    SPECDEC_CHECK(probability == 0 || probability == 1,
                  "a probability of 0 or 1; {} is left to chance", probability);
    return probability == 1;
  }
  TokenId race(std::span<const double> probs, int) override { return certain(probs); }

 private:
  static TokenId certain(std::span<const double> probs) {
    const auto possible = [](double prob) { return prob > 0; };
    SPECDEC_CHECK(std::ranges::count_if(probs, possible) == 1,
                  "one possible token, so that nothing is left to chance");
    return static_cast<TokenId>(std::ranges::find_if(probs, possible) - probs.begin());
  }
};

// The embedded pair, loaded once.
class SameTextTest : public ::testing::Test {
 protected:
  static Engine& target() {
    static Engine engine("target", make_cpu_backend(2), 16);
    return engine;
  }
  static Engine& draft() {
    static Engine engine("draft", make_cpu_backend(2), 16);
    return engine;
  }
  static SamplingDrafter& drafter() {
    static SamplingDrafter drafter(*draft().llama, kLimit);
    return drafter;
  }
  static Text sampled(Drafter& by, int K, std::uint64_t seed, const SpeculationOptions& options,
                      const Text& prompt) {
    Dice dice(seed);
    return speculate(*target().llama, by, K, dice, options,
                     request_of(prompt, 24, {3841, 3848, 3849}), kLimit)
        .tokens;
  }
};

bool same_round(const Round& a, const Round& b) {
  return a.start == b.start && a.drafted == b.drafted && a.accepted == b.accepted &&
         a.end == b.end && a.sum_acceptance_prob == b.sum_acceptance_prob;
}

SpeculationRun greedy(LanguageModel& target, Drafter& drafter, int K,
                      const GenerationRequest& request) {
  SpeculationRun run;
  DraftAndVerify steps(target, drafter, K, kLimit);
  Generation generation(request, nullptr);
  Text context = request.prompt;
  steps.prefill(context);
  while (!generation.finished()) run.rounds.push_back(greedy_round(steps, context, generation));
  run.tokens.assign(generation.tokens().begin(), generation.tokens().end());
  return run;
}

TEST_F(SameTextTest, TemperatureZeroIsGreedySpeculationRoundForRound) {
  for (const Text& prompt : prompts()) {
    const GenerationRequest request = request_of(prompt, 24, {3841, 3848, 3849});
    for (const int K : {0, 1, 3, 5, 8}) {
      const SpeculationRun want = greedy(*target().llama, drafter(), K, request);
      for (const NamedRule& rule : acceptance_rules()) {
        SCOPED_TRACE(fmt::format("{}, K = {}", rule.name, K));
        NoRandomness random;
        const SpeculationRun got =
            speculate(*target().llama, drafter(), K, random, {{}, 0, &rule}, request, kLimit);
        EXPECT_EQ(got.tokens, want.tokens);
        EXPECT_TRUE(std::ranges::equal(got.rounds, want.rounds, same_round));
      }
    }
  }
}

// The drafts are sampled, the target is greedy: other rounds, the same text.
TEST_F(SameTextTest, TemperatureZeroIsGreedyWhateverTheDraftsTemperature) {
  const GenerationRequest request = request_of(prompts()[0], 24);
  const Text want = greedy(*target().llama, drafter(), 0, request).tokens;
  for (const NamedRule& rule : acceptance_rules()) {
    for (const double draft_temperature : {0.5, 2.0}) {
      Dice dice(3);
      EXPECT_EQ(speculate(*target().llama, drafter(), 4, dice, {{}, draft_temperature, &rule},
                          request, kLimit)
                    .tokens,
                want)
          << rule.name;
    }
  }
}

// The target's own token is drawn from a uniform (coupled: from noise) that belongs to the position
// alone, so speculation cannot change it: the text is that of plain sampling, whatever is drafted.
TEST_F(SameTextTest, RulesThatDrawTheTargetsOwnTokenWriteThePlainText) {
  SamplingDrafter self(*target().llama, kLimit);
  Engine copy("target", make_cpu_backend(2), 16, {}, 4, kLimit, WeightFormat::kInt8);
  SamplingDrafter int8_self(*copy.llama, kLimit);
  BlindDrafter blind(target().llama->vocab_size());
  const std::pair<const char*, Drafter*> drafters[] = {
      {"draft", &drafter()}, {"self", &self}, {"self, int8", &int8_self}, {"blind", &blind}};
  const SamplingOptions sampling{.temperature = 0.9, .top_p = 0.95, .repetition_penalty = 1.1};
  for (const char* rule : {"coupled", "sample-and-match"}) {
    const SpeculationOptions options{sampling, 1.1, &find_acceptance_rule(rule)};
    for (std::uint64_t seed = 0; seed < prompts().size(); seed++) {
      const Text& prompt = prompts()[seed];
      const Text plain = sampled(drafter(), 0, seed, options, prompt);
      for (int K = 1; K <= 8; K++) {
        for (const auto& [name, by] : drafters) {
          if (K % 3 != 0 && by != &drafter()) continue;
          EXPECT_EQ(sampled(*by, K, seed, options, prompt), plain)
              << rule << ", " << name << ", K = " << K;
        }
      }
    }
  }
}

// The control: rejection() writes another text of the same law.
TEST_F(SameTextTest, RejectionWritesAnotherText) {
  const SpeculationOptions options{{.temperature = 1}, 1};
  EXPECT_NE(sampled(drafter(), 4, 1, options, prompts()[0]),
            sampled(drafter(), 0, 1, options, prompts()[0]));
}

TEST(SameTextOnTables, RulesThatDrawTheTargetsOwnTokenWriteThePlainText) {
  std::mt19937 random(1);
  const auto rows = [&](int) { return random_weights(5, 0.3, random); };
  const ContextTable target_table(5, rows), draft_table(5, rows);
  TableModel target(5, target_table.row_of()), draft(5, draft_table.row_of());
  SamplingDrafter drafter(draft, 128);
  for (const char* rule : {"coupled", "sample-and-match"}) {
    const SpeculationOptions options{
        {.temperature = 1.2, .repetition_penalty = 1.3}, 0.8, &find_acceptance_rule(rule)};
    for (std::uint64_t seed = 0; seed < 100; seed++) {
      const GenerationRequest request = request_of({0, 1}, 30, {});
      Dice dice(seed);
      const Text plain = speculate(target, drafter, 0, dice, options, request).tokens;
      for (int K = 1; K <= 8; K++) {
        EXPECT_EQ(speculate(target, drafter, K, dice, options, request).tokens, plain)
            << rule << ", seed " << seed << ", K = " << K;
      }
    }
  }
}

// A draft with the target's own distributions is always kept, by rules that compare them; and where
// noise is shared.
TEST_F(SameTextTest, ASelfDraftIsAlwaysKept) {
  SamplingDrafter self(*target().llama, kLimit);
  for (const char* rule : {"rejection", "at-least", "non-iterative", "coupled"}) {
    Dice dice(5);
    const SpeculationOptions options{
        {.temperature = 0.9, .top_p = 0.9}, 0.9, &find_acceptance_rule(rule)};
    const SpeculationRun run =
        speculate(*target().llama, self, 4, dice, options, request_of(prompts()[1], 40), kLimit);
    for (const Round& round : run.rounds) EXPECT_NE(round.end, RoundEnd::kRejected) << rule;
  }
}

// ---- one seed, one text ----

const SpeculationOptions kSampled{{.temperature = 0.8, .top_p = 0.9, .repetition_penalty = 1.2},
                                  0.8};

SpeculationRun run_on(int page_size, int threads, int max_pass_rows, std::string_view rule) {
  Engine target("target", make_cpu_backend(threads), page_size, {.max_pass_rows = max_pass_rows},
                2);
  Engine draft("draft", make_cpu_backend(threads), page_size, {.max_pass_rows = max_pass_rows}, 2);
  SamplingDrafter drafter(*draft.llama, kLimit);
  SpeculationOptions options = kSampled;
  options.rule = &find_acceptance_rule(rule);
  Dice dice(11);
  return speculate(*target.llama, drafter, 4, dice, options, request_of(prompts()[0], 48), kLimit);
}

TEST(SameSeed, SameTokensOnEveryCacheThreadCountAndPrefill) {
  for (const char* rule : {"rejection", "coupled"}) {
    const SpeculationRun want = run_on(16, 2, 256, rule);
    ASSERT_EQ(want.tokens.size(), 48u);
    for (const int page_size : {kNoPages, 1, 3, 16}) {
      for (const int threads : {1, 3}) {
        for (const int max_pass_rows : {1, 7, 256}) {
          SCOPED_TRACE(fmt::format("{} {} {} {}", rule, page_size, threads, max_pass_rows));
          const SpeculationRun got = run_on(page_size, threads, max_pass_rows, rule);
          EXPECT_EQ(got.tokens, want.tokens);
          EXPECT_TRUE(std::ranges::equal(got.rounds, want.rounds, same_round));
        }
      }
    }
  }
}

TEST(SameSeed, AnotherSeedIsAnotherText) {
  std::set<Text> texts;
  Engine target("target", make_cpu_backend(2), 16), draft("draft", make_cpu_backend(2), 16);
  SamplingDrafter drafter(*draft.llama, kLimit);
  for (std::uint64_t seed = 0; seed < 8; seed++) {
    Dice dice(seed);
    texts.insert(
        speculate(*target.llama, drafter, 4, dice, kSampled, request_of(prompts()[0], 24), kLimit)
            .tokens);
  }
  EXPECT_GE(texts.size(), 7u);
}

// Ids from token_limit on are no tokens: neither model may emit them, though both are hot enough to
// draw anything. Without the limit they do come out.
TEST(PaddingIds, AreNeverEmitted) {
  constexpr TokenId kTokens = 2000;
  int beyond = 0;
  for (const int token_limit : {int{kTokens}, 0}) {
    Engine target("target", make_cpu_backend(2), 16, {.token_limit = token_limit}),
        draft("draft", make_cpu_backend(2), 16, {.token_limit = token_limit});
    SamplingDrafter drafter(*draft.llama, kLimit);
    for (const NamedRule& rule : acceptance_rules()) {
      Dice dice(1);
      const SpeculationRun run =
          speculate(*target.llama, drafter, 4, dice, {{.temperature = 3}, 3, &rule},
                    request_of({3, 14, 159}, 40), kLimit);
      const auto count =
          std::ranges::count_if(run.tokens, [](TokenId id) { return id >= kTokens; });
      EXPECT_TRUE(token_limit == 0 || count == 0) << rule.name;
      beyond += static_cast<int>(count);
    }
  }
  EXPECT_GT(beyond, 50) << "the control";
}

}  // namespace
}  // namespace specdec
