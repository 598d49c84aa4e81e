// The n-grams of stage 7: what they guess, and that they forget what is taken back.
#include "stages/07_adaptive_drafting/ngram_drafter.h"

#include <random>

#include "common/speculation/lookup_drafter.h"
#include "stages/07_adaptive_drafting/fallback_drafter.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

using Text = std::vector<TokenId>;

Text drafted(Drafter& drafter, SequenceId sequence, const Text& context, int K) {
  Drafts drafts(K, 0);
  const DraftRequest request{sequence, context, K, {}, &drafts};
  drafter.draft(std::span(&request, 1));
  return {drafts.tokens().begin(), drafts.tokens().end()};
}

Text drafted(const Text& context, int K, int longest = NgramDrafter::kLongest) {
  NgramDrafter drafter(longest);
  return drafted(drafter, drafter.create(), context, K);
}

TEST(NgramDrafterTest, TheLongestMatchCountsMost) {
  // After 1 2 came 3, after 2 alone more often 4.
  EXPECT_EQ(drafted({1, 2, 3, 5, 2, 4, 6, 2, 4, 1, 2}, 1), Text{3});
  EXPECT_EQ(drafted({1, 2, 3, 5, 2, 4, 6, 2, 4, 1, 2}, 1, 1), Text{4});
}

TEST(NgramDrafterTest, ThenTheFrequentThenTheLatest) {
  EXPECT_EQ(drafted({7, 1, 7, 2, 7, 1, 7, 3, 7}, 1, 1), Text{1});
  EXPECT_EQ(drafted({7, 1, 7, 2, 7}, 1, 1), Text{2});
}

TEST(NgramDrafterTest, GoesOnAfterItsOwnDrafts) {
  EXPECT_EQ(drafted({1, 2, 3, 1, 2, 3, 1}, 5), (Text{2, 3, 1, 2, 3}));
}

TEST(NgramDrafterTest, SaysNothingOfWhatIsNew) {
  EXPECT_EQ(drafted({1, 2, 3}, 4), Text{});
  EXPECT_EQ(drafted({5}, 4), Text{});
}

// Texts that grow and shrink at random: it drafts what one drafts that reads the text for the first
// time. So neither its own drafts nor tokens that were taken back are remembered.
TEST(NgramDrafterTest, RemembersTheTextAlone) {
  std::mt19937 random(1);
  NgramDrafter drafter;
  const SequenceId other = drafter.create(), sequence = drafter.create();
  drafted(drafter, other, {1, 1, 1, 1}, 3);
  Text text = {0};
  int found = 0;
  for (int step = 0; step < 2000; step++) {
    if (random() % 3 == 0 && text.size() > 1) {
      text.resize(1 + random() % text.size());
      drafter.truncate(sequence, static_cast<int>(text.size()) - 1);
    }
    for (auto n = 1 + random() % 4; n > 0; n--) text.push_back(static_cast<TokenId>(random() % 4));
    const Text tokens = drafted(drafter, sequence, text, 4);
    EXPECT_EQ(tokens, drafted(text, 4)) << "step " << step;
    EXPECT_EQ(drafter.length(sequence), std::ssize(text));
    found += !tokens.empty();
  }
  EXPECT_GT(found, 1000);
}

TEST(NgramDrafterTest, AReleasedSequenceIsForgotten) {
  NgramDrafter drafter;
  const SequenceId first = drafter.create();
  drafted(drafter, first, {1, 2, 1, 2}, 3);
  drafter.release(first);
  const SequenceId second = drafter.create();
  EXPECT_EQ(second, first);
  EXPECT_EQ(drafted(drafter, second, {1, 2}, 3), Text{});
}

// ---- two drafters ----

TEST(FallbackDrafterTest, TheSecondDraftsWhereTheFirstHasNothing) {
  const auto any = std::make_shared<NgramDrafter>(1);
  FallbackDrafter drafter(std::make_shared<NoDrafter>(), any);
  const SequenceId sequence = drafter.create();
  EXPECT_EQ(drafted(drafter, sequence, {1, 2, 1}, 2), (Text{2, 1}));
  EXPECT_EQ(drafter.length(sequence), 3);
  drafter.truncate(sequence, 2);
  EXPECT_EQ(drafter.length(sequence), 2);
}

TEST(FallbackDrafterTest, EachRequestHasItsOwn) {
  FallbackDrafter drafter(std::make_shared<NgramDrafter>(3), std::make_shared<NgramDrafter>(1), 2);
  const SequenceId a = drafter.create(), b = drafter.create();
  Drafts of_a(2, 0), of_b(2, 0);
  const Text text_a = {1, 2, 3, 1, 2}, text_b = {4, 5, 6};
  const DraftRequest requests[] = {{a, text_a, 2, {}, &of_a}, {b, text_b, 2, {}, &of_b}};
  drafter.draft(requests);
  EXPECT_EQ(Text(of_a.tokens().begin(), of_a.tokens().end()), (Text{3, 1}));
  EXPECT_EQ(of_b.size(), 0);
  drafter.release(a);
  EXPECT_EQ(drafter.create(), a) << "sequences are used again";
}

// The first part's sequence is given back where the second has no room for one.
TEST(FallbackDrafterTest, ASecondWithoutRoomLeavesNothingBehind) {
  const auto first = std::make_shared<LookupDrafter>(8, 2);
  FallbackDrafter drafter(first, std::make_shared<LookupDrafter>(8, 1), 2);
  drafter.create();
  EXPECT_THROW(drafter.create(), CacheFull);
  EXPECT_NO_THROW(first->create());
}

}  // namespace
}  // namespace specdec
