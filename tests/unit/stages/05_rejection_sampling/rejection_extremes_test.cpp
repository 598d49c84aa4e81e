// What stage 5 refuses, rows of logits that are no distribution, and randomness at its extremes.
#include "stages/05_rejection_sampling/sampling_drafter.h"
#include "stages/programs/sampling/speculation_options.h"
#include "tests/every_path.h"
#include "tests/special_numbers.h"
#include "tests/table_model.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

constexpr double kLargestUniform = 1 - 0x1p-53;

// Two models of V tokens, the same two rows wherever they are asked, with a prompt of one token.
class SpeculationTest : public ::testing::Test {
 protected:
  static constexpr int V = 4;

  SpeculationRun run(RandomSource& random, const SpeculationOptions& options, int spec_length = 3) {
    return speculate(target_, drafter_, spec_length, random, options, request_of({0}, 8));
  }
  // The tokens that were emitted before it failed.
  Text emitted_before(const std::string& message, RandomSource& random,
                      const SpeculationOptions& options, Text* context_out = nullptr,
                      int spec_length = 3) {
    const GenerationRequest request = request_of({0}, 8);
    Generation generation(request, nullptr);
    DraftAndVerify steps(target_, drafter_, fixed_spec_length(spec_length), 100,
                         Drafts(spec_length, target_.vocab_size()));
    const auto judge = make_judge(steps, random, options);
    Text context = request.prompt;
    const auto decode = [&] {
      while (!generation.finished()) sampled_round(steps, *judge, context, generation);
    };
    EXPECT_ERROR(decode(), message);
    if (context_out) *context_out = context;
    return {generation.tokens().begin(), generation.tokens().end()};
  }

  // Rows by the length of the prefix; the last one for all that are longer.
  using Rows = std::vector<std::vector<float>>;
  static std::span<const float> row_after(const Rows& rows, std::size_t length) {
    return rows[std::min(length, rows.size()) - 1];
  }

  Rows target_rows_ = {{0, 1, 2, 3}}, draft_rows_ = {{0, 1, 2, 3}};
  TableModel target_{
      V, [this](std::span<const TokenId> text) { return row_after(target_rows_, text.size()); }};
  TableModel draft_{
      V, [this](std::span<const TokenId> text) { return row_after(draft_rows_, text.size()); }};
  SamplingDrafter drafter_{draft_, 100};
  Dice dice_{1};
};

SpeculationOptions at_temperature(double temperature, std::string_view rule = "rejection") {
  return {{.temperature = temperature}, temperature, &find_acceptance_rule(rule)};
}

TEST_F(SpeculationTest, OptionsOutOfRangeAreRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double lenience : {0.0, -1.0, 1.000001, nan}) {
    SpeculationOptions options = at_temperature(1);
    options.lenience = lenience;
    EXPECT_ERROR(run(dice_, options), "--lenience is");
  }
  for (const NamedRule& rule : acceptance_rules()) {
    SpeculationOptions options = at_temperature(1);
    options.rule = &rule;
    options.lenience = 0.5;
    const std::string error = error_message([&] { run(dice_, options); });
    EXPECT_EQ(error, rule.name == "rejection"
                         ? ""
                         : fmt::format("--lenience belongs to --acceptance rejection, not to {}",
                                       rule.name));
  }
  for (const double temperature : {-1.0, nan, std::numeric_limits<double>::infinity()}) {
    SpeculationOptions options = at_temperature(1);
    options.draft_temperature = temperature;
    EXPECT_ERROR(run(dice_, options), "--draft-temperature is");
    EXPECT_ERROR(run(dice_, at_temperature(temperature)), "--temperature is");
  }
  SpeculationOptions options = at_temperature(1);
  options.sampling.top_p = 0;
  EXPECT_ERROR(run(dice_, options), "--top-p is 0");
}

// ---- rows that are no distribution ----

constexpr const char* kNothing = "there is nothing to sample from";

// The target's row after three tokens, the prompt's and two of the text, is bad: those two have
// been emitted then, whether they were drafts or not.
TEST_F(SpeculationTest, ATargetRowThatIsNoDistributionEndsItThere) {
  for (const std::vector<float>& bad :
       {std::vector<float>{0, kNan, 0, 0}, std::vector<float>{kNan, kNan, kNan, kNan},
        std::vector<float>{kInfinity, 0, 0, 0}, std::vector<float>(V, -kInfinity)}) {
    target_rows_ = {{0, 1, 2, 3}, {0, 1, 2, 3}, bad};
    for (const NamedRule& rule : acceptance_rules()) {
      for (const double temperature : {0.0, 1.0}) {
        const SpeculationOptions options{{.temperature = temperature}, temperature, &rule};
        Text context;
        const Text emitted = emitted_before(kNothing, dice_, options, &context);
        EXPECT_EQ(emitted.size(), 2u) << rule.name;
        EXPECT_TRUE(std::ranges::equal(emitted, std::span(context).subspan(1))) << rule.name;
      }
    }
  }
}

TEST_F(SpeculationTest, TheBonusRowMustBeADistributionToo) {
  target_rows_ = {{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}, {0, 0, 0, kNan}};
  EXPECT_EQ(emitted_before(kNothing, dice_, at_temperature(1)).size(), 3u);
}

// The row after a rejected draft belongs to no text; nobody looks at it.
TEST_F(SpeculationTest, ARowBehindARejectionMayBeAnything) {
  target_rows_ = {{0, -kInfinity, -kInfinity, -kInfinity}, {0, 1, 2, kNan}};
  draft_rows_ = {{-kInfinity, 0, 0, 0}};
  const GenerationRequest request = request_of({0}, 1);
  for (const char* rule : {"rejection", "at-least", "non-iterative", "one-hot", "coupled"}) {
    EXPECT_EQ(speculate(target_, drafter_, 3, dice_, at_temperature(1, rule), request).tokens,
              Text({0}));
  }
}

TEST_F(SpeculationTest, ADraftRowThatIsNoDistributionEndsItBeforeItsRound) {
  draft_rows_ = {{0, 1, 2, 3}, {0, 1, 2, 3}, {0, kNan, 2, 3}};
  EXPECT_EQ(emitted_before("not numbers", dice_, at_temperature(0)), Text());
  EXPECT_EQ(emitted_before(kNothing, dice_, at_temperature(1)), Text());
  EXPECT_EQ(emitted_before(kNothing, dice_, at_temperature(1), nullptr, 1).size(), 2u)
      << "its first round is good";
}

TEST_F(SpeculationTest, OneTokenWithAllTheMassIsTheText) {
  target_rows_ = {{-kInfinity, -kInfinity, 5, -kInfinity}};
  for (const NamedRule& rule : acceptance_rules()) {
    EXPECT_EQ(run(dice_, at_temperature(1, rule.name)).tokens, Text(8, 2));
  }
}

// ---- the extremes of randomness ----

// Every uniform is the same one. Races have no such extreme: a draw for each token.
class ConstantSource final : public RandomSource {
 public:
  explicit ConstantSource(double u) : u_(u) {}
  TokenId token(std::span<const double> probs, int, Purpose, int) override {
    return sample(probs, u_);
  }
  bool accept(double probability, int, int) override { return u_ < probability; }
  TokenId race(std::span<const double> probs, int) override {
    return static_cast<TokenId>(std::ranges::max_element(probs) - probs.begin());
  }

 private:
  double u_;
};

// The rules that must never emit what the target rules out: all of them.
TEST(ExtremeSource, NeverEmitsWhatTheTargetRulesOut) {
  std::vector<AcceptanceRule> rules = {lenient, lenient_argmax};
  for (const NamedRule& rule : acceptance_rules()) rules.push_back(rule.rule);
  for (const double u : {0.0, 0x1p-53, 0.5, kLargestUniform}) {
    ConstantSource random(u);
    for (const auto& [p, q] : pairs_of_probs()) {
      for (TokenId draft = 0; draft < std::ssize(q); draft++) {
        if (q[static_cast<std::size_t>(draft)] == 0) continue;
        for (const AcceptanceRule rule : rules) {
          Probs scratch(p.size());
          const Decision decision = rule({7, draft, p, q, 0.5}, random, scratch);
          EXPECT_GT(p[static_cast<std::size_t>(decision.token)], 0) << "u = " << u;
        }
      }
    }
  }
}

TEST(ExtremeSource, UniformZeroRejectsADraftOfProbabilityZero) {
  ConstantSource random(0);
  const Probs p = {0, 0.5, 0.5}, q = {0.5, 0.25, 0.25};
  for (const NamedRule& rule : acceptance_rules()) {
    Probs scratch(3);
    const Decision decision = rule.rule({7, 0, p, q}, random, scratch);
    EXPECT_FALSE(decision.accepted) << rule.name;
    EXPECT_NE(decision.token, 0) << rule.name;
  }
}

TEST(ExtremeSource, DiceAcceptBelowAndNotAtTheProbability) {
  for (std::uint64_t seed = 0; seed < 2000; seed++) {
    Dice dice(seed);
    const double u = uniform(seed, 5, Purpose::kAccept);
    EXPECT_FALSE(dice.accept(u, 5)) << "not at most";
    EXPECT_TRUE(dice.accept(std::nextafter(u, 1), 5));
    EXPECT_FALSE(dice.accept(0, 5));
    EXPECT_TRUE(dice.accept(1, 5));
  }
}

// Equal up to rounding: a rejection has almost no probability, but where rounding makes one, the
// correction is a token of the target's.
TEST(ExtremeSource, ResidualsThatAreZeroUpToRounding) {
  const Probs p = normalised({0.1, 0, 0.3, 0.2, 0});
  Probs above = p, below = p;
  above[2] = std::nextafter(p[2], 1);
  below[2] = std::nextafter(p[2], 0);
  for (const double u : {0.0, 0.5, kLargestUniform}) {
    for (const Probs& q : {p, above, below}) {
      for (const AcceptanceRule rule : {rejection, at_least, non_iterative, one_hot, lenient}) {
        for (TokenId draft : {0, 2, 3}) {
          ConstantSource random(u);
          Probs scratch(p.size());
          const Decision decision = rule({7, draft, p, q}, random, scratch);
          EXPECT_GT(p[static_cast<std::size_t>(decision.token)], 0);
        }
      }
    }
  }
}

// Rejects whatever can be rejected, and keeps what the correction was drawn from.
class Rejecting final : public RandomSource {
 public:
  TokenId token(std::span<const double> probs, int, Purpose, int) override {
    drawn_from.assign(probs.begin(), probs.end());
    return sample(probs, 0.5);
  }
  bool accept(double probability, int, int) override { return probability >= 1; }
  TokenId race(std::span<const double> probs, int) override { return sample(probs, 0.5); }

  Probs drawn_from;
};

// Where rounding rejects and leaves no residual at all, the target's own distribution stands in;
// the rejected token is not simply emitted.
TEST(ExtremeSource, AnEmptyResidualIsReplacedByTheTarget) {
  const Probs p = normalised({0.1, 0, 0.3, 0.2, 0});
  Probs q = p;
  q[2] = std::nextafter(p[2], 1);
  for (const AcceptanceRule rule : {rejection, lenient, residual_skipped}) {
    Rejecting random;
    Probs scratch(p.size());
    EXPECT_FALSE(rule({7, 2, p, q}, random, scratch).accepted);
    EXPECT_EQ(random.drawn_from, p) << "the rejected token is not simply emitted";
  }
}

// Drafts that the target all but rules out.
TEST(ExtremeSource, ATinyLenienceDoesNotVanish) {
  Rejecting random;
  const Probs target_probs = {0, 1}, draft_probs = {1e-30, 1};
  Probs scratch(2);
  const Proposal draft{7, 0, target_probs, draft_probs, 1e-300};
  EXPECT_FALSE(lenient(draft, random, scratch).accepted);
}

TEST(ExtremeSource, TinyProbabilitiesStayFinite) {
  const double tiny = std::numeric_limits<double>::denorm_min();
  const std::vector<Probs> rows = {{tiny, 1, 0}, {1e-300, 1, 0}, {1, tiny, 0}, {1, 0, 1e-300}};
  for (const Probs& p : rows) {
    for (const Probs& q : rows) {
      for (TokenId draft = 0; draft < 3; draft++) {
        if (q[static_cast<std::size_t>(draft)] == 0) continue;
        for (const NamedRule& rule : acceptance_rules()) {
          for (const double u : {0.0, kLargestUniform}) {
            ConstantSource random(u);
            Probs scratch(3);
            const Decision decision = rule.rule({7, draft, p, q}, random, scratch);
            EXPECT_GT(p[static_cast<std::size_t>(decision.token)], 0) << rule.name;
          }
        }
      }
    }
  }
}

// The whole round on extreme uniforms: what the target rules out never comes out.
TEST_F(SpeculationTest, ExtremeUniformsNeverEmitWhatTheTargetRulesOut) {
  target_rows_ = {{-kInfinity, 1, 2, -kInfinity}};
  draft_rows_ = {{1, 1, -kInfinity, 1}};
  for (const double u : {0.0, kLargestUniform}) {
    for (const NamedRule& rule : acceptance_rules()) {
      ConstantSource random(u);
      for (const TokenId token : run(random, at_temperature(1, rule.name)).tokens) {
        EXPECT_TRUE(token == 1 || token == 2) << rule.name << ": " << token;
      }
    }
  }
}

}  // namespace
}  // namespace specdec
