// Rejection sampling as a loop: the target's law after about M tries, where there is an M.
#include "stages/00_toy_speculation/rejection_loop.h"

#include <random>

#include "stages/00_toy_speculation/example_tables.h"
#include "stages/00_toy_speculation/several_drafts.h"
#include "tests/test_support.h"
#include "tests/unit/stages/00_toy_speculation/random_tables.h"

namespace specdec::toy {
namespace {

constexpr int kTries = 6;

// The tries are geometric: each is the last one with probability 1 / M.
void expect_geometric(const LoopLaw& loop, double ratio) {
  const double unfinished = std::pow(1 - 1 / ratio, kTries);
  EXPECT_NEAR(loop.finished, 1 - unfinished, kExact);
  EXPECT_NEAR(loop.mean_tries, ratio * (1 - unfinished), kExact) << "M tries without the bound";
}

TEST(RejectionLoopTest, LawIsTheTargetsWhereTheDraftCanSayAll) {
  for (const TokenId context : {0, 3}) {
    const Probs& target_probs = example_tables().target_probs[context];
    const Probs& draft_probs = example_tables().draft_probs[context];
    const double ratio = largest_ratio(target_probs, draft_probs);
    EXPECT_NEAR(ratio, context == 0 ? 2 : 1, kExact);
    const LoopLaw loop = loop_law(target_probs, draft_probs, ratio, kTries);
    EXPECT_LE(largest_difference(loop.law, law_of(target_probs)), kExact) << kWords[context];
    expect_geometric(loop, ratio);
  }
}

TEST(RejectionLoopTest, LawIsTheTargetsForRandomRows) {
  std::mt19937 random(9);
  for (int i = 0; i < 20; i++) {
    const Probs target_probs = random_row(3, random), draft_probs = positive_row(3, random);
    const double ratio = largest_ratio(target_probs, draft_probs);
    const LoopLaw loop = loop_law(target_probs, draft_probs, ratio, kTries);
    EXPECT_LE(largest_difference(loop.law, law_of(target_probs)), kExact);
    expect_geometric(loop, ratio);
  }
}

TEST(RejectionLoopTest, ALargerMIsRightAndSlower) {
  const LoopLaw loop = loop_law(kTarget, kDraft, 3, kTries);
  EXPECT_LE(largest_difference(loop.law, law_of(kTarget)), kExact);
  expect_geometric(loop, 3);
}

TEST(RejectionLoopTest, ATryIsKeptLessOftenThanADraft) {
  const double try_kept = loop_law(kTarget, kDraft, 2, 1).finished;
  EXPECT_NEAR(try_kept, 0.5, kExact);
  EXPECT_LT(try_kept, trials_law(kTarget, kDraft, Drafting::kIndependent, 1).accepted);
}

TEST(RejectionLoopTest, HasNoMWhereTheDraftLacksAToken) {
  for (const TokenId context : {1, 2}) {
    EXPECT_DEATH(largest_ratio(example_tables().target_probs[context],
                               example_tables().draft_probs[context]),
                 "a draft that can draw token");
  }
}

// Without M, "accept with min(1, p / q), else try again" has a law of its own: norm(min(p, q)).
TEST(RejectionLoopControlTest, TryingAgainWithoutMHasAnotherLaw) {
  Probs smaller(kTarget.size());
  for (std::size_t i = 0; i < smaller.size(); i++) smaller[i] = std::min(kTarget[i], kDraft[i]);
  const LoopLaw loop = loop_law(kTarget, kDraft, 1, kTries);
  EXPECT_LE(largest_difference(loop.law, law_of(scaled(smaller))), kExact);
  EXPECT_NEAR(largest_difference(loop.law, law_of(kTarget)), 0.2 - 0.1 / 0.65, kExact);
}

}  // namespace
}  // namespace specdec::toy
