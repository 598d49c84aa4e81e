// A draft model that has no distribution at some places: the law stays the target's.
#include "common/speculation/sound_drafter.h"
#include "tests/test_support.h"
#include "tests/unit/stages/05_rejection_sampling/rejection_law.h"

namespace specdec::law {
namespace {

// After token 0 the rows are NaN.
Rows damaged(int V, const Rows& rows) {
  return [=](int row, std::mt19937& random) {
    std::vector<double> weights = rows(row, random);
    if (row % V == 0) weights[0] = std::numeric_limits<double>::quiet_NaN();
    return weights;
  };
}

std::vector<Scenario> damaged_scenarios(const Size& size) {
  const Rows any = random_rows(size.V, 0), zeros = random_rows(size.V, 0.35);
  std::vector<Scenario> scenarios = {
      scenario("any", size, 3, any, damaged(size.V, any), 4),
      scenario("zeros", size, 5, zeros, damaged(size.V, zeros), 6),
  };
  for (Scenario& scenario : scenarios) {
    scenario.make_drafter = [](LanguageModel& draft) {
      return std::make_shared<SoundDrafter>(std::make_shared<SamplingDrafter>(draft, 64),
                                            [](const BadLogits&) {});
    };
  }
  return scenarios;
}

TEST(DamagedDraftTest, TheLawIsTheTargets) {
  for (const Size& size : {Size{2, 3, 4}, Size{3, 2, 3}, Size{3, 3, 3}, Size{4, 2, 2}}) {
    for (const Scenario& scenario : damaged_scenarios(size)) {
      const double difference = largest_difference(speculation_law(scenario), target_law(scenario));
      EXPECT_TRUE(difference <= 1e-12) << scenario.name << ": " << difference;
    }
  }
}

// Gives up all drafts of a round where one cannot be made.
class GivesUp final : public Drafter {
 public:
  explicit GivesUp(LanguageModel& draft) : drafter_(draft, 64) {}
  SequenceId create() override { return drafter_.create(); }
  void release(SequenceId sequence) override { drafter_.release(sequence); }
  void draft(std::span<const DraftRequest> requests) override {
    try {
      drafter_.draft(requests);
    } catch (const BadLogits&) {
      requests[0].drafts->clear();
    }
  }
  void truncate(SequenceId sequence, int length) override { drafter_.truncate(sequence, length); }
  int length(SequenceId sequence) const override { return drafter_.length(sequence); }

 private:
  SamplingDrafter drafter_;
};

// The control: a draft of token 0 that another one was to follow is then never tested.
TEST(DamagedDraftTest, GivingUpTheDraftsBeforeIsNotLossless) {
  Scenario scenario = damaged_scenarios({3, 2, 3})[0];
  scenario.make_drafter = [](LanguageModel& draft) { return std::make_shared<GivesUp>(draft); };
  EXPECT_GT(largest_difference(speculation_law(scenario), target_law(scenario)), 1e-3);
}

TEST(DamagedDraftTest, ItIsToldOnceAndOfTheDraft) {
  const Rows any = random_rows(3, 0);
  const Scenario scenario = law::scenario("", {3, 3, 3}, 3, any, damaged(3, any), 4);
  TableModel draft(3, scenario.draft.row_of());
  std::vector<std::string> told;
  SoundDrafter drafter(std::make_shared<SamplingDrafter>(draft, 64, 2),
                       [&](const BadLogits& damage) { told.push_back(damage.about()); });
  Dice dice(1);
  Drafts bad(3, 3), good(3, 3);
  const Text after_bad = {1, 0}, after_good = {1, 2};
  const Sampling sampling{.options = {.temperature = 0}, .random = &dice};
  std::vector<DraftRequest> requests = {{drafter.create(), after_bad, 3, sampling, &bad},
                                        {drafter.create(), after_good, 1, sampling, &good}};
  for (int round = 0; round < 3; round++) {
    drafter.draft(requests);
    EXPECT_EQ(bad.size(), 0);
    EXPECT_EQ(good.size(), 1) << "the other request keeps its drafts";
    for (const DraftRequest& request : requests) drafter.truncate(request.sequence, 1);
  }
  EXPECT_EQ(told,
            std::vector<std::string>{"logits are not numbers (NaN); its weights may be damaged"});
}

// What is thrown where no drafter stands between blames the target.
TEST(DamagedDraftTest, AnyOtherDamageIsTheTargets) {
  EXPECT_STREQ(BadLogits("logits are odd").what(), "the target's logits are odd");
}

}  // namespace
}  // namespace specdec::law
