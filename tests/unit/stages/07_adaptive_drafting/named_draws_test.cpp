// The law of the text where draws have names, as in the program: who asks for a position and a
// purpose again gets the same number again. A drafted token that was never tested may be drawn by
// its number once more, so what it decided must not reach the next rounds.
#include "common/speculation/forwarding_drafter.h"
#include "stages/07_adaptive_drafting/fallback_drafter.h"
#include "stages/07_adaptive_drafting/ngram_drafter.h"
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
double off(const MakeDrafter& drafter, const MakePolicy& policy, int fill = 0) {
  const Law law = drafting_law<Random>(scenario(), quarters({0.5, 0.5}), drafter, policy, fill).law;
  return largest_difference(law, target_law(scenario()));
}

template <typename Random>
double off(const MakePolicy& policy) {
  return off<Random>([](LanguageModel& model, LanguageModel&) { return gated_drafter(model); },
                     policy);
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

// N-grams that learn what the target found likely in the places of the text, and a model.
TEST(NamedDrawsTest, LearningTheTargetsLikelyTokensKeepsTheLaw) {
  const auto drafter = [](LanguageModel& model, LanguageModel&) {
    return std::make_shared<FallbackDrafter>(std::make_shared<NgramDrafter>(2),
                                             gated_drafter(model));
  };
  for (const int fill : {1, 2}) {
    EXPECT_LT(off<QuarterDice>(
                  drafter, [] { return fixed_spec_length(3); }, fill),
              1e-6)
        << fill;
  }
}

// WRONG: it also learns the rows after drafts that were never tested. After one of these tokens it
// proposes what the target found likely there, in place of a draw.
class LearnsUntestedRows final : public ForwardingDrafter {
 public:
  explicit LearnsUntestedRows(std::shared_ptr<Drafter> model)
      : ForwardingDrafter(*model), model_(std::move(model)) {}

  SequenceId create() override {
    drafted_.clear();
    untested_.clear();
    return ForwardingDrafter::create();
  }

  void draft(std::span<const DraftRequest> requests) override {
    const DraftRequest& request = requests.front();
    const TokenId pending = request.context.back();
    if (std::ranges::count(untested_, pending) > 0) {
      request.drafts->clear();
      request.drafts->add_certain(pending == 0 ? 1 : 0);
    } else {
      ForwardingDrafter::draft(requests);
    }
    drafted_.assign(request.drafts->tokens().begin(), request.drafts->tokens().end());
    start_ = static_cast<int>(request.context.size());
  }

  void truncate(SequenceId sequence, int length) override {
    const auto tested = std::min(drafted_.size(), static_cast<std::size_t>(length - start_ + 1));
    untested_.assign(drafted_.begin() + static_cast<std::ptrdiff_t>(tested), drafted_.end());
    ForwardingDrafter::truncate(sequence, length);
  }

 private:
  std::shared_ptr<Drafter> model_;
  Text drafted_, untested_;
  int start_ = 0;
};

TEST(NamedDrawsTest, LearningUntestedRowsIsOff) {
  const auto wrong = [](LanguageModel& model, LanguageModel&) {
    return std::make_shared<LearnsUntestedRows>(gated_drafter(model));
  };
  const MakePolicy policy = [] { return fixed_spec_length(3); };
  EXPECT_GT(off<QuarterDice>(wrong, policy), 1e-3);
  EXPECT_LT(off<EveryPath>(wrong, policy), 1e-6);
}

}  // namespace
}  // namespace specdec::law
