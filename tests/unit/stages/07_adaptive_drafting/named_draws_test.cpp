// The law of the text where draws have names, as in the program: who asks for a position and a
// purpose again gets the same number again. A drafted token that was never tested may be drawn by
// its number once more, so what it decided must not reach the next rounds.
#include "stages/07_adaptive_drafting/while_it_pays.h"
#include "tests/quarter_dice.h"
#include "tests/unit/stages/07_adaptive_drafting/drafting_law.h"

namespace specdec::law {
namespace {

// After token 0: q = (1/2, 1/2), p = (1/4, 3/4). After token 1 both are (3/4, 1/4).
ContextTable quarters(std::vector<double> after_0) {
  return ContextTable(2, [=](int row) {
    return row % 2 == 0 ? after_0 : std::vector<double>{0.75, 0.25};
  });
}

Scenario scenario() {
  return {.name = "quarters",
          .target = quarters({0.25, 0.75}),
          .draft = quarters({0.5, 0.5}),
          .spec_length = 3,
          .new_tokens = 3,
          .prompt = {0, 0}};
}

// Goes on after token 0 and ends the drafts after token 1: their number tells what was drawn.
class EndsAfterToken1 : public SpecLengthPolicy, public DraftGate {
 public:
  int largest() const override { return 3; }
  int next() const override { return 3; }
  void learn(const Round&) override {}
  DraftGate* gate() override { return this; }
  bool goes_on(std::span<const double> draft_probs, int drafted) override {
    return drafted == 0 || draft_probs[0] < 0.6;
  }
};

// WRONG: a plain step after a round of three drafts, tested or not.
class RestsAfterLongRounds final : public EndsAfterToken1 {
 public:
  int next() const override { return rests_ ? 0 : 3; }
  void learn(const Round& round) override { rests_ = round.drafted == 3; }

 private:
  bool rests_ = false;
};

template <typename Random>
double off(const MakePolicy& policy) {
  const auto drafter = [](LanguageModel& model, LanguageModel&) { return gated_drafter(model); };
  const Law law = drafting_law<Random>(scenario(), quarters({0.5, 0.5}), drafter, policy).law;
  return largest_difference(law, target_law(scenario()));
}

TEST(NamedDrawsTest, AGateKeepsTheLaw) {
  EXPECT_LT(off<QuarterDice>([] { return std::make_unique<EndsAfterToken1>(); }), 1e-6);
}

// With the first costs one rejection is enough for a pause. With the second ones it would be if a
// round counted with all of its three drafts, and not with two: that must not make a difference.
TEST(NamedDrawsTest, AGuardKeepsTheLaw) {
  for (const std::vector<double>& costs : {std::vector<double>{1, 2, 9, 9.5}, {1, 2, 3, 9}}) {
    const auto guarded = [&] {
      return std::make_unique<WhileItPays>(std::make_unique<EndsAfterToken1>(), costs, 0.5);
    };
    EXPECT_LT(off<QuarterDice>(guarded), 1e-6);
  }
}

// A policy that learns how many were drafted is off, and only where draws have names.
TEST(NamedDrawsTest, LearningFromUntestedDraftsIsOff) {
  const auto wrong = [] { return std::make_unique<RestsAfterLongRounds>(); };
  EXPECT_GT(off<QuarterDice>(wrong), 1e-3);
  EXPECT_LT(off<EveryPath>(wrong), 1e-6);
}

}  // namespace
}  // namespace specdec::law
