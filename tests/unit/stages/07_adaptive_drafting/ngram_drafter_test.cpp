// The n-grams of stage 7: what they guess, and that they forget what is taken back.
#include "stages/07_adaptive_drafting/ngram_drafter.h"

#include <memory>
#include <random>
#include <utility>

#include "common/speculation/lookup_drafter.h"
#include "kernels/cpu/cpu_backend.h"
#include "stages/07_adaptive_drafting/fallback_drafter.h"
#include "stages/07_adaptive_drafting/note_likely.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

using Text = std::vector<TokenId>;

Text drafted(Drafter& drafter, SequenceId sequence, const Text& context, int K,
             std::shared_ptr<LikelyTokens> likely = nullptr) {
  Drafts drafts(K, 0);
  const Sampling sampling{.options = {}, .likely = std::move(likely)};
  const DraftRequest request{sequence, context, K, sampling, &drafts};
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

// ---- the target's likely tokens ----

// What a target would find likely after a text: k of four tokens.
Text likely_after(std::span<const TokenId> text, int k) {
  Text tokens;
  for (int i = 0; i < k; i++) tokens.push_back((text.back() + 2 * std::ssize(text) + i) % 4);
  return tokens;
}

std::shared_ptr<LikelyTokens> noted(const Text& text, int k, int first) {
  auto likely = std::make_shared<LikelyTokens>(k, first);
  for (auto i = static_cast<std::size_t>(first); i < text.size(); i++) {
    likely->add(likely_after(std::span(text).first(i), k));
  }
  return likely;
}

TEST(LikelyTokensTest, BeginAfterThePrompt) {
  LikelyTokens likely(2, 3);
  EXPECT_EQ(likely.end(), 3);
  likely.add(Text{7, 5});
  likely.add(Text{6, 8});
  EXPECT_EQ(likely.end(), 5);
  EXPECT_TRUE(likely.at(2).empty());
  EXPECT_THAT(likely.at(3), testing::ElementsAre(7, 5));
  EXPECT_THAT(likely.at(4), testing::ElementsAre(6, 8));
  EXPECT_TRUE(likely.at(5).empty()) << "not known yet";
}

// After 1 came 2 once and 3 once, the latter last. In the place of the 2 the target found 2 and 4
// likely, in that of the 3 it was 2 and 3: so there are three 2s, two 3s and one 4.
TEST(NgramFillTest, CountsWhatTheTargetFoundLikely) {
  const Text text = {0, 1, 2, 1, 3, 1};
  const auto likely = std::make_shared<LikelyTokens>(2, 2);
  for (const Text& tokens : {Text{2, 4}, {0, 9}, {2, 3}, {1, 9}}) likely->add(tokens);
  NgramDrafter filled(1), plain(1);
  EXPECT_EQ(drafted(filled, filled.create(), text, 1, likely), Text{2});
  EXPECT_EQ(drafted(plain, plain.create(), text, 1), Text{3});
}

// Among equals the text's own token comes first, then what the target found likelier.
TEST(NgramFillTest, TheTextComesFirstAmongEquals) {
  const auto likely = std::make_shared<LikelyTokens>(2, 1);
  likely->add(Text{4, 5});
  likely->add(Text{8, 9});
  NgramDrafter drafter(1);
  EXPECT_EQ(drafted(drafter, drafter.create(), {1, 2, 1}, 1, likely), Text{2});
  NgramCounts counts(1);
  counts.append(1);
  counts.append(4, Text{4, 5});  // after 1: 5, 4, 4
  counts.append(1);
  counts.append(5, Text{6, 5});  // and 5, 6, 5
  EXPECT_EQ(counts.guess(Text{1}), 5) << "three against two";
  counts.truncate(3);
  EXPECT_EQ(counts.guess(Text{1}), 4);
}

// As RemembersTheTextAlone: what is noted about tokens that were taken back is forgotten with them,
// and it makes no difference whether a text is learned bit by bit or at once, as after a
// preemption.
TEST(NgramFillTest, RemembersTheTextAlone) {
  std::mt19937 random(1);
  for (const int k : {1, 3}) {
    NgramDrafter drafter, unfilled;
    const SequenceId sequence = drafter.create(), other = unfilled.create();
    Text text = {0, 1};
    int found = 0, different = 0;
    for (int step = 0; step < 1000; step++) {
      if (random() % 3 == 0 && text.size() > 2) {
        text.resize(2 + random() % (text.size() - 1));
        drafter.truncate(sequence, static_cast<int>(text.size()) - 1);
        unfilled.truncate(other, static_cast<int>(text.size()) - 1);
      }
      for (auto n = 1 + random() % 4; n > 0; n--)
        text.push_back(static_cast<TokenId>(random() % 4));
      const Text tokens = drafted(drafter, sequence, text, 4, noted(text, k, 2));
      NgramDrafter fresh;
      EXPECT_EQ(tokens, drafted(fresh, fresh.create(), text, 4, noted(text, k, 2)))
          << "step " << step;
      found += !tokens.empty();
      different += tokens != drafted(unfilled, other, text, 4);
    }
    EXPECT_GT(found, 500);
    EXPECT_GT(different, 100) << "the target's tokens make a difference";
  }
}

// Rows of a round of three drafts, of which the target rejected the second: the third row and the
// fourth were computed after a token that is not in the text.
TEST(NoteLikelyTest, TakesTheRowsOfTokensThatWereEmitted) {
  const auto backend = make_plain_backend();
  const std::vector<float> logits = {1, 3, 2, 0,   //
                                     4, 4, 5, -1,  // equals: the lower id first
                                     9, 0, 0, 0,   //
                                     9, 0, 0, 0};
  const ConstDeviceRows rows(logits.data(), 4, 4, 4);
  LikelyTokens likely(2, 10);
  note_likely({.drafted = 3, .accepted = 1, .end = RoundEnd::kRejected}, rows, *backend, likely);
  EXPECT_EQ(likely.end(), 12);
  EXPECT_THAT(likely.at(10), testing::ElementsAre(1, 2));
  EXPECT_THAT(likely.at(11), testing::ElementsAre(2, 0));
  note_likely({.drafted = 1, .accepted = 1, .end = RoundEnd::kStopped}, rows, *backend, likely);
  EXPECT_EQ(likely.end(), 13) << "a stop: no token after the accepted one";
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
