// Rules that say when to stop drafting: the law is the target's unless a draft decides on itself.
#include "stages/00_toy_speculation/stopping_rules.h"

#include <random>

#include "stages/00_toy_speculation/example_tables.h"
#include "tests/test_support.h"
#include "tests/unit/stages/00_toy_speculation/random_tables.h"

namespace specdec::toy {
namespace {

constexpr int kLength = 3;
constexpr const StoppingRule& kDropping = kStoppingRules.back();

double difference(const StoppingRule& rule, const Tables& tables, TokenId context, int most,
                  int length = kLength) {
  return largest_difference(stopping_law(rule, tables, context, most, length).law,
                            target_law(tables, context, length));
}

void expect_exact(const StoppingRule& rule, const Tables& tables, int most) {
  for (TokenId context = 0; context < std::ssize(tables.target_probs); context++) {
    for (int K = 1; K <= most; K++) {
      EXPECT_LE(difference(rule, tables, context, K), kExact)
          << fmt::format("{}, context {}, K = {}", rule.name, context, K);
    }
  }
}

// The drafts of every path after ".".
template <typename See>
void for_every_drafting(const StoppingRule& rule, See&& see) {
  EveryPath random;
  do {
    see(draft_until(rule, example_tables(), {3}, 3, random));
  } while (random.next());
}

TEST(StoppingRulesTest, LawIsTheTargets) {
  for (const StoppingRule& rule : kStoppingRules) {
    if (rule.drops_last) continue;
    expect_exact(rule, example_tables(), 2);
    EXPECT_LE(difference(rule, example_tables(), 3, 3), kExact) << rule.name << ", K = 3";
  }
}

// Neither the rules of the lesson nor its tables are special: any function of the text, of the row,
// and of the kept draft will do.
TEST(StoppingRulesTest, LawIsTheTargetsForRandomTables) {
  const StoppingRule by_text = {"the whole text", [](const Text& text, const Probs&) {
                                  TokenId sum = static_cast<TokenId>(text.size());
                                  for (const TokenId token : text) sum += token * token;
                                  return sum % 3 == 0;
                                }};
  const StoppingRule by_all = {
      "the text, the row and the draft",
      [](const Text& text, const Probs& row) { return text.size() % 2 == 0 && row[0] < 0.2; },
      [](TokenId draft, const Probs& row) { return draft == 2 || row[draft] < 0.3; }};
  std::mt19937 random(10);
  for (int i = 0; i < 5; i++) {
    const Tables tables = random_tables(3, random);
    for (const StoppingRule& rule : {by_text, by_all}) expect_exact(rule, tables, 2);
  }
}

TEST(StoppingRulesTest, WithoutAStopARoundIsAsBefore) {
  for (std::uint64_t seed = 0; seed < 50; seed++) {
    const Dice dice{
        [&](int position, Purpose purpose) { return uniform(seed, position, purpose); }};
    const Text text = {3, 0, 1};
    const Round stopped = stopping_round(kStoppingRules[0], example_tables(), text, 3, dice);
    const Round round = speculative_round(example_tables(), text, 3, dice);
    EXPECT_EQ(stopped.drafts, round.drafts);
    EXPECT_EQ(stopped.accepted, round.accepted);
    EXPECT_EQ(stopped.emitted, round.emitted);
  }
}

TEST(StoppingRulesTest, StopAtWhatTheirNamesSay) {
  const Tables& tables = example_tables();
  for_every_drafting(kStoppingRules[1], [](const Text& drafts) {
    EXPECT_EQ(std::ranges::count(drafts, 1), !drafts.empty() && drafts.back() == 1)
        << "cat is a last draft";
  });
  for_every_drafting(kStoppingRules[2], [](const Text& drafts) {
    for (std::size_t i = 0; i + 1 < drafts.size(); i++)
      EXPECT_TRUE(drafts[i] == 0 || drafts[i] == 3);
  });
  const auto unsure = [&](const Text& drafts) {  // how many were
    TokenId context = 3;
    int count = 0;
    for (const TokenId draft : drafts) {
      if (tables.draft_probs[context][draft] < 0.15) count++;
      context = draft;
    }
    return count;
  };
  int kept = 0;
  for_every_drafting(kStoppingRules[3], [&](const Text& drafts) {
    EXPECT_LE(unsure(drafts), 1);
    EXPECT_TRUE(drafts.size() == 3 || unsure(drafts) == 1);
    EXPECT_EQ(unsure({drafts.begin(), drafts.end() - 1}), 0) << "an unsure draft is the last one";
    kept += unsure(drafts);
  });
  EXPECT_GT(kept, 0);
  for_every_drafting(kDropping, [&](const Text& drafts) { EXPECT_EQ(unsure(drafts), 0); });
}

// What sitting 0.4 works out with a pencil: "." after "the" comes with 0.12 instead of 0.20.
TEST(StoppingRulesControlTest, DroppingADraftHasAnotherLaw) {
  const StoppingLaw dropped = stopping_law(kDropping, example_tables(), 0, 1, 1);
  EXPECT_LE(largest_difference(dropped.law, {{{0}, 0.055}, {{1}, 0.77}, {{2}, 0.055}, {{3}, 0.12}}),
            kExact);
  for (const TokenId context : {0, 3}) {
    for (int K = 1; K <= 2; K++) {
      EXPECT_GE(difference(kDropping, example_tables(), context, K), kVisible);
    }
  }
}

TEST(StoppingRulesControlTest, ARuleThatKeepsItDiffersInNothingElse) {
  StoppingRule kept = kDropping;
  kept.drops_last = false;
  EXPECT_LE(difference(kept, example_tables(), 3, 2), kExact);
  EXPECT_GE(difference(kDropping, example_tables(), 3, 2), kVisible);
}

}  // namespace
}  // namespace specdec::toy
