// Several drafts for one position, treated wrongly: each mistake gives another law.
#include "stages/00_toy_speculation/example_tables.h"
#include "stages/00_toy_speculation/several_drafts.h"
#include "stages/00_toy_speculation/wrong_rules.h"
#include "tests/test_support.h"
#include "tests/unit/stages/00_toy_speculation/random_tables.h"

namespace specdec::toy {
namespace {

TEST(SeveralDraftsControlTest, MergedDuplicatesAreOffByWhatWasWorkedOut) {
  const auto merged = [](int count) {
    return trials_law(kTarget, kDraft, Drafting::kIndependent, count, merge_duplicates);
  };
  EXPECT_NEAR(difference(kTarget, merged(2)), 0.0102, 5e-5);
  EXPECT_NEAR(difference(kTarget, merged(4)), 0.0295, 5e-5);
  EXPECT_NEAR(merged(2).accepted, .8425, kExact) << "with two, the acceptance shows nothing";
}

TEST(SeveralDraftsControlTest, EachWrongTreatmentHasAnotherLaw) {
  for (const WrongTrials& wrong : kWrongTrials) {
    EXPECT_LE(difference(kTarget, trials_law(kTarget, kDraft, wrong.drafting, 1, wrong.arrange)),
              kExact)
        << wrong.name << ": one draft can be neither merged nor sorted";
    for (int count = 2; count <= 4; count++) {
      EXPECT_GE(
          difference(kTarget, trials_law(kTarget, kDraft, wrong.drafting, count, wrong.arrange)),
          kVisible)
          << wrong.name << ", " << count << " drafts";
    }
  }
}

TEST(SeveralDraftsControlTest, TheWrongCorrectionsOfARoundAreWrongHereToo) {
  for (const WrongRule& wrong : {kWrongRules[0], kWrongRules[1]}) {
    for (const auto drafting :
         {Drafting::kIndependent, Drafting::kWithoutReplacement, Drafting::kLikeliest}) {
      const TrialsLaw trials = trials_law(kTarget, kDraft, drafting, 2, as_drafted, wrong.rule);
      EXPECT_GE(difference(kTarget, trials), kVisible) << wrong.name;
    }
  }
}

TEST(SeveralDraftsControlTest, TheWrongTreatmentsDoWhatTheirNamesSay) {
  const Probs q = {0.25, 0.75}, left = {1, 0};
  const auto arranged = [](std::vector<Trial> trials, Arrange arrange) {
    arrange(trials);
    std::vector<std::pair<TokenId, double>> seen;
    for (const Trial& trial : trials)
      seen.emplace_back(trial.draft, trial.draft_probs[trial.draft]);
    return seen;
  };
  using Seen = std::vector<std::pair<TokenId, double>>;
  EXPECT_EQ(arranged({{1, q}, {0, q}, {1, q}}, merge_duplicates), Seen({{1, .75}, {0, .25}}));
  EXPECT_EQ(arranged({{1, q}, {0, q}}, sort_by_id), Seen({{0, .25}, {1, .75}}));
  EXPECT_EQ(arranged({{0, q}, {1, q}}, sort_by_probability), Seen({{1, .75}, {0, .25}}));
  EXPECT_EQ(arranged({{1, q}, {0, left}}, forget_replacement), Seen({{1, .75}, {0, .25}}));
}

}  // namespace
}  // namespace specdec::toy
