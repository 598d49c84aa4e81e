// Drafters that do not look at the text: the random one, and the scripted ones that tests use.
#include "common/speculation/random_drafter.h"

#include <cmath>

#include "common/speculation/paper_formulas.h"
#include "tests/scripted_drafter.h"
#include "tests/test_support.h"
#include "tests/unit/allocation_counter.h"

namespace specdec {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Tokens = std::vector<TokenId>;

Tokens tokens_of(const Drafts& drafts) { return {drafts.tokens().begin(), drafts.tokens().end()}; }

// ---- RandomDrafter ----

constexpr int kLimit = 7, kVocab = 10;

struct Random {
  const Drafts& operator()(std::size_t context_length, int spec_length, const Sampling& sampling) {
    const Tokens context(context_length, 3);
    const DraftRequest request{sequence, context, spec_length, sampling, &drafts};
    drafter.draft(std::span(&request, 1));
    return drafts;
  }
  RandomDrafter drafter{kLimit};
  SequenceId sequence = drafter.create();
  Drafts drafts{8, kVocab};
};

TEST(RandomDrafterTest, GreedyChoiceBelongsToThePosition) {
  Random random;
  std::vector<int> counts(kLimit);
  for (int start = 1; start < 20'000; start += 8) {
    const Drafts& drafts = random(static_cast<std::size_t>(start), 8, {});
    ASSERT_EQ(drafts.size(), 8);
    for (int i = 0; i < 8; i++) {
      const double u = uniform(0, start + i, Purpose::kDraft);
      ASSERT_EQ(drafts.token(i), static_cast<TokenId>(std::floor(u * kLimit)));
      EXPECT_THAT(drafts.probs(i), IsEmpty()) << "certain";
      counts[static_cast<std::size_t>(drafts.token(i))]++;
    }
  }
  const double expected = 20'000.0 / kLimit, sd = std::sqrt(expected * (1 - 1.0 / kLimit));
  for (const int count : counts) EXPECT_NEAR(count, expected, 5 * sd);
}

TEST(RandomDrafterTest, DrawsAreThoseOfTheDice) {
  Random random;
  Dice dice(42), other(42);
  std::vector<double> law(kVocab, 0.0);
  std::fill_n(law.begin(), kLimit, 1.0 / kLimit);
  for (const bool race : {false, true}) {
    const Sampling sampling{{.temperature = 0.7, .top_k = 2}, &dice, race};
    for (int start = 1; start < 500; start += 5) {
      const Drafts& drafts = random(static_cast<std::size_t>(start), 5, sampling);
      ASSERT_EQ(drafts.size(), 5);
      for (int i = 0; i < 5; i++) {
        EXPECT_EQ(drafts.token(i),
                  race ? other.race(law, start + i) : other.token(law, start + i, Purpose::kDraft));
        EXPECT_LT(drafts.token(i), kLimit);
        EXPECT_THAT(drafts.probs(i), ::testing::ElementsAreArray(law));
      }
    }
  }
}

TEST(RandomDrafterTest, BatchesAreSingleRequestsSideBySide) {
  RandomDrafter drafter(kLimit);
  const SequenceId a = drafter.create(), b = drafter.create();
  EXPECT_NE(a, b);
  Dice dice(5), other(6);
  const Tokens long_context(30), short_context(2);
  Drafts first(4, kVocab), second(4, kVocab);
  const DraftRequest requests[] = {{a, long_context, 4, {{.temperature = 1}, &dice}, &first},
                                   {b, short_context, 3, {{.temperature = 1}, &other}, &second}};
  drafter.draft(requests);
  Random random;
  EXPECT_EQ(tokens_of(first), tokens_of(random(30, 4, requests[0].sampling)));
  EXPECT_EQ(tokens_of(second), tokens_of(random(2, 3, requests[1].sampling)));
}

TEST(RandomDrafterTest, NothingToRemember) {
  Random random;
  EXPECT_THAT(random(5, 0, {}).tokens(), IsEmpty());
  random(5, 3, {});
  EXPECT_THAT(random(5, 0, {}).tokens(), IsEmpty()) << "cleared";
  EXPECT_EQ(random.drafter.length(random.sequence), 0);
  random.drafter.truncate(random.sequence, 2);
  random.drafter.release(random.sequence);
  EXPECT_EQ(random.drafter.forwards(), 0);
}

TEST(RandomDrafterTest, AllocatesNothing) {
  RandomDrafter drafter(kLimit);
  const SequenceId sequence = drafter.create();
  Drafts drafts(8, kVocab);
  Dice dice(1);
  const Tokens context(12);
  const std::size_t before = allocations();
  for (const double temperature : {0.0, 1.0}) {
    const DraftRequest request{sequence, context, 8, {{temperature}, &dice}, &drafts};
    drafter.draft(std::span(&request, 1));
  }
  EXPECT_EQ(allocations() - before, 0u);
}

TEST(RandomDrafterDeathTest, BrokenPreconditions) {
  EXPECT_DEATH(RandomDrafter(0), "at least one token");
  Dice dice(1);
  Random random;
  random.drafts = Drafts(4, kLimit - 1);
  EXPECT_DEATH(random(1, 1, {{.temperature = 1}, &dice}), "7 tokens to be in a vocabulary of 6");
}

// ---- the scripted ones ----

Tokens ask(Drafter& drafter, SequenceId sequence, const Tokens& context, int spec_length) {
  Drafts drafts(8, 0);
  const DraftRequest request{sequence, context, spec_length, {}, &drafts};
  drafter.draft(std::span(&request, 1));
  return tokens_of(drafts);
}

TEST(ScriptedDrafterTest, ListsAndBooks) {
  ScriptedDrafter drafter({{4, 5, 6}, {}, {7}});
  const SequenceId sequence = drafter.create();
  EXPECT_THAT(ask(drafter, sequence, {1, 2}, 2), ElementsAre(4, 5));
  EXPECT_EQ(drafter.length(sequence), 3) << "the last draft is not fed";
  drafter.truncate(sequence, 2);
  EXPECT_EQ(drafter.length(sequence), 2);
  EXPECT_THAT(ask(drafter, sequence, {1, 2, 3}, 2), IsEmpty());
  EXPECT_EQ(drafter.length(sequence), 2) << "nothing proposed, nothing fed";
  EXPECT_THAT(ask(drafter, sequence, {1, 2, 3}, 2), ElementsAre(7));
  EXPECT_THAT(ask(drafter, sequence, {1, 2, 3, 4}, 2), IsEmpty());
  using Call = ScriptedDrafter::Call;
  EXPECT_THAT(drafter.calls, ElementsAre(Call{sequence, 2, 2}, Call{sequence, 3, 2},
                                         Call{sequence, 3, 2}, Call{sequence, 4, 2}));
  EXPECT_THAT(drafter.truncations, ElementsAre(ScriptedDrafter::Truncation{sequence, 2}));
  EXPECT_EQ(drafter.sequences(), 1);
  drafter.release(sequence);
  EXPECT_EQ(drafter.sequences(), 0);
}

TEST(ScriptedDrafterTest, AFunctionOfTheContext) {
  ScriptedDrafter drafter([](std::span<const TokenId> context, int i) {
    return i < 3 ? context.back() + 1 + i : ScriptedDrafter::kNoMore;
  });
  EXPECT_THAT(ask(drafter, drafter.create(), {1, 8}, 5), ElementsAre(9, 10, 11));
}

TEST(SyntheticDrafterTest, IsRightAsOftenAsAsked) {
  constexpr int kPrompt = 5, kTokens = 40'000, kK = 4;
  Tokens text;
  for (int i = 0; i < kPrompt + kTokens; i++) text.push_back(i * 7 % 11);
  for (const double alpha : {0.0, 0.3, 0.8, 1.0}) {
    SyntheticDrafter drafter(text, alpha, 9, 11);
    const SequenceId sequence = drafter.create();
    int rounds = 0, emitted = 0;
    for (std::size_t length = kPrompt; length + kK < text.size();) {
      Drafts drafts(kK, 0);
      const DraftRequest request{sequence, std::span(text).first(length), kK, {}, &drafts};
      drafter.draft(std::span(&request, 1));
      std::size_t accepted = 0;
      while (accepted < kK && drafts.tokens()[accepted] == text[length + accepted]) accepted++;
      drafter.truncate(sequence, static_cast<int>(length + accepted));
      length += accepted + 1;
      rounds++;
      emitted += static_cast<int>(accepted) + 1;
    }
    // A round's tokens are between 1 and K + 1, so their standard deviation is at most K / 2.
    EXPECT_NEAR(static_cast<double>(emitted) / rounds, expected_emitted(alpha, kK),
                4 * 0.5 * kK / std::sqrt(rounds))
        << alpha;
  }
  SyntheticDrafter drafter({1, 2, 3}, 1, 0, 11);
  EXPECT_THAT(ask(drafter, drafter.create(), {1}, 5), ElementsAre(2, 3)) << "the text ends";
}

}  // namespace
}  // namespace specdec
