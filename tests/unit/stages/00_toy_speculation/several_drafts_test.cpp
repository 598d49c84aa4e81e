// Several drafts for one position: whatever they are and however many, the token follows the
// target.
#include "stages/00_toy_speculation/several_drafts.h"

#include <random>
#include <set>

#include "stages/00_toy_speculation/example_tables.h"
#include "stages/00_toy_speculation/wrong_rules.h"
#include "tests/test_support.h"
#include "tests/unit/stages/00_toy_speculation/random_tables.h"

namespace specdec::toy {
namespace {

constexpr std::array<Drafting, 3> kAll = {Drafting::kIndependent, Drafting::kWithoutReplacement,
                                          Drafting::kLikeliest};

void expect_exact(const Probs& target_probs, const Probs& draft_probs, int most) {
  for (const Drafting drafting : kAll) {
    for (int count = 1; count <= most; count++) {
      EXPECT_LE(difference(target_probs, trials_law(target_probs, draft_probs, drafting, count)),
                kExact)
          << fmt::format("drafting {}, {} drafts", static_cast<int>(drafting), count);
    }
  }
}

TEST(SeveralDraftsTest, LawIsTheTargetsOnAllRows) {
  for (std::size_t context = 0; context < kWords.size(); context++) {
    SCOPED_TRACE(kWords[context]);
    expect_exact(example_tables().target_probs[context], example_tables().draft_probs[context], 4);
  }
}

TEST(SeveralDraftsTest, LawIsTheTargetsForRandomRows) {
  std::mt19937 random(8);
  for (int V = 2; V <= 5; V++) {
    for (int i = 0; i < 10; i++) {
      SCOPED_TRACE(fmt::format("V = {}, rows {}", V, i));
      const Probs target_probs = random_row(V, random);
      expect_exact(target_probs, random_row(V, random), 3);
    }
  }
}

TEST(SeveralDraftsTest, KeepsADraftAsOftenAsWorkedOut) {
  const std::array<std::array<double, 4>, 3> kept = {
      {{.65, .8425, .92912, .95784}, {.65, .89979, .96364, 1}, {.70, .75, .80, 1}}};
  for (std::size_t i = 0; i < kAll.size(); i++) {
    for (int count = 1; count <= 4; count++) {
      EXPECT_NEAR(trials_law(kTarget, kDraft, kAll[i], count).accepted,
                  kept[i][static_cast<std::size_t>(count - 1)], 5e-6)
          << fmt::format("drafting {}, {} drafts", i, count);
    }
  }
}

// The second draft's own sum, by hand: p_1 is (0, 5/7, 0, 2/7), and sum min(p_1, q) is 0.55.
TEST(SeveralDraftsTest, ASecondDraftMeetsWhatTheFirstHasLeft) {
  EXPECT_NEAR(trials_law(kTarget, kDraft, Drafting::kIndependent, 2).accepted, .65 + .35 * .55,
              kExact);
}

TEST(SeveralDraftsTest, OneDraftIsARoundOfOne) {
  for (TokenId context = 0; context < std::ssize(kWords); context++) {
    const TrialsLaw trials =
        trials_law(example_tables().target_probs[context], example_tables().draft_probs[context],
                   Drafting::kIndependent, 1);
    EXPECT_LE(largest_difference(trials.law, shortened(round_law(example_tables(), context, 1), 1)),
              kExact);
  }
}

TEST(SeveralDraftsTest, DraftsChosenWithoutChanceMayComeInAnyOrder) {
  for (const Arrange arrange : {sort_by_id, sort_by_probability, merge_duplicates}) {
    for (int count = 2; count <= 4; count++) {
      EXPECT_LE(
          difference(kTarget, trials_law(kTarget, kDraft, Drafting::kLikeliest, count, arrange)),
          kExact);
    }
  }
}

TEST(SeveralDraftsTest, DraftsNoTokenThatQLacks) {
  const Probs draft_probs = {0, 0.75, 0, 0.25};
  for (const Drafting drafting : {Drafting::kWithoutReplacement, Drafting::kLikeliest}) {
    EveryPath random;
    do {
      std::set<TokenId> drafts;
      const auto trials = draft_trials(draft_probs, drafting, 4, random);
      for (const Trial& trial : trials) drafts.insert(trial.draft);
      EXPECT_EQ(drafts, std::set<TokenId>({1, 3}));
      EXPECT_EQ(trials.size(), 2U);
      EXPECT_EQ(trials[1].draft_probs[trials[1].draft], 1) << "only one token is left";
    } while (random.next());
  }
}

TEST(SeveralDraftsTest, NamesEveryUniformOnce) {
  std::set<std::pair<int, Purpose>> asked;
  int draws = 0;
  const Dice dice{[&](int position, Purpose purpose) {
    asked.emplace(position, purpose);
    draws++;
    return purpose == Purpose::kAccept ? 1 - 0x1p-53 : 0.0;  // each draft is "the", and rejected
  }};
  const auto trials = draft_trials(kDraft, Drafting::kIndependent, 3, dice);
  EXPECT_EQ(judge_trials(kTarget, trials, dice).trial, 3U);
  EXPECT_EQ(draws, 7);
  EXPECT_EQ(asked.size(), 7U) << "two decisions share a random number";
}

}  // namespace
}  // namespace specdec::toy
