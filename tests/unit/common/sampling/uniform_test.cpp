// Keyed random numbers: their names, their range, and that names do not share draws.
#include "common/sampling/uniform.h"

#include <array>
#include <cmath>
#include <set>
#include <vector>

#include "common/sampling/distribution.h"
#include "common/sampling/random_source.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

constexpr Purpose kPurposes[] = {Purpose::kDraft, Purpose::kAccept, Purpose::kResample,
                                 Purpose::kTarget, Purpose::kRace};

// Random123's known answer for counter 0 and key 0: its first words are 6627e8d5 and e169c58d.
// 27 bits of the one and 26 of the other are these.
TEST(UniformTest, KnownAnswer) {
  EXPECT_EQ(uniform(0, 0, Purpose::kDraft), 0xcc4fd1b85a716 * 0x1p-53);
}

TEST(UniformTest, IsBelowOneAndAMultipleOfTheLastBit) {
  for (int position = 0; position < 20'000; position++) {
    const double u = uniform(5, position, Purpose::kAccept);
    ASSERT_TRUE(u >= 0 && u < 1) << u;
    ASSERT_EQ(u * 0x1p53, std::floor(u * 0x1p53));
  }
}

// A first token of probability 1e-9 is drawn by numbers below 1e-9 alone. This one has 24 zeros in
// front; if its other bits were dropped, it would draw any first token, however unlikely.
TEST(UniformTest, UnlikelyFirstTokensAreNotDrawnByTheUpperBitsAlone) {
  const double u = uniform(3437508, 7, Purpose::kAccept);
  EXPECT_LT(u, 0x1p-24);
  EXPECT_EQ(sample(std::vector{1e-9, 1.0}, u), 1);
  EXPECT_EQ(sample(std::vector{1e-7, 1.0}, u), 0);
}

TEST(UniformTest, IsTheSameWheneverAsked) {
  const double first = uniform(17, 12, Purpose::kTarget);
  uniform(17, 13, Purpose::kTarget);
  EXPECT_EQ(uniform(17, 12, Purpose::kTarget), first);
}

// All four parts of a name and both words of the seed count.
TEST(UniformTest, EveryPartOfTheNameCounts) {
  std::set<double> draws;
  int names = 0;
  const auto add = [&](std::uint64_t seed, int position, Purpose purpose, TokenId index) {
    draws.insert(uniform(seed, position, purpose, index));
    names++;
  };
  for (const Purpose purpose : kPurposes) add(1, 1, purpose, 1);
  for (const std::uint64_t seed : {0ull, 2ull, 1ull << 32, 1ull << 33, 1ull << 63, ~0ull}) {
    add(seed, 1, Purpose::kRace, 1);
  }
  for (const int position : {0, 2, 65536, 131071, 2147483647}) add(1, position, Purpose::kRace, 1);
  for (const TokenId index : {0, 2, 65537, 128255}) add(1, 1, Purpose::kRace, index);
  EXPECT_EQ(draws.size(), static_cast<std::size_t>(names));
}

constexpr int kCells = 16;
constexpr int kDraws = 1 << 16;

int cell(double u) { return static_cast<int>(u * kCells); }

// Pearson's statistic of pairs of draws over 16 x 16 equal cells: 255 degrees of freedom, mean 255.
template <typename First, typename Second>
double chi_square_of_pairs(First first, Second second) {
  std::array<int, kCells * kCells> counts{};
  for (int i = 0; i < kDraws; i++) {
    counts[static_cast<std::size_t>(cell(first(i)) * kCells + cell(second(i)))]++;
  }
  constexpr double expected = double{kDraws} / (kCells * kCells);
  double sum = 0;
  for (const int count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

// Chi-square with 255 degrees of freedom exceeds this with probability 4e-10 (Wilson-Hilferty);
// with the 14 tests below the false-alarm rate is 6e-9. Cells off by 5% of their share on average
// (root mean square) add 0.05^2 x 65,536 = 164 and are detected about every second time.
constexpr double kBound = 420;

TEST(UniformTest, NeighboursAreIndependentAndUniform) {
  for (const Purpose purpose : kPurposes) {
    EXPECT_LT(chi_square_of_pairs([&](int i) { return uniform(3, i, purpose); },
                                  [&](int i) { return uniform(3, i + 1, purpose); }),
              kBound);
  }
}

// The draw that accepts a token is not the one that chose it.
TEST(UniformTest, PurposesAtOnePositionAreIndependent) {
  for (const Purpose purpose : kPurposes) {
    if (purpose == Purpose::kAccept) continue;
    EXPECT_LT(chi_square_of_pairs([](int i) { return uniform(4, i, Purpose::kAccept); },
                                  [&](int i) { return uniform(4, i, purpose); }),
              kBound);
  }
}

TEST(UniformTest, SeedsAndIndicesAreIndependent) {
  const auto seed = [](int i) { return static_cast<std::uint64_t>(i); };
  EXPECT_LT(chi_square_of_pairs([&](int i) { return uniform(seed(i), 9, Purpose::kDraft); },
                                [&](int i) { return uniform(seed(i) + 1, 9, Purpose::kDraft); }),
            kBound);
  EXPECT_LT(chi_square_of_pairs([&](int i) { return uniform(seed(i), 9, Purpose::kDraft); },
                                [&](int i) { return uniform(seed(i) << 32, 9, Purpose::kDraft); }),
            kBound);
  EXPECT_LT(chi_square_of_pairs([](int i) { return uniform(6, 9, Purpose::kRace, i); },
                                [](int i) { return uniform(6, 9, Purpose::kRace, i + 1); }),
            kBound);
}

TEST(UniformTest, TheLowerBitsAreUniformToo) {
  const auto rest = [](int i) {  // what the last 29 bits say, in [0, 1)
    return std::fmod(uniform(8, i, Purpose::kRace) * 0x1p24, 1);
  };
  EXPECT_LT(chi_square_of_pairs(rest, [&](int i) { return rest(i + 1); }), kBound);
  EXPECT_LT(chi_square_of_pairs(rest, [](int i) { return uniform(8, i, Purpose::kRace); }), kBound);
}

// Among equal tokens, the first to arrive is the one with the largest number. In the races at 102
// and 273, the first two share its upper 24 bits: these alone would name the wrong winner.
TEST(UniformTest, RacesTakeAllBits) {
  constexpr int kTokens = 1 << 18;
  const std::vector<double> probs(kTokens, 1.0 / kTokens);
  Dice dice(9);
  for (const int position : {101, 102, 273}) {
    TokenId fine = 0, coarse = 0;
    double fine_most = -1, coarse_most = -1;
    for (TokenId i = 0; i < kTokens; i++) {
      const double u = uniform(9, position, Purpose::kRace, i);
      const double upper = std::floor(u * 0x1p24);
      if (u > fine_most) fine = i, fine_most = u;
      if (upper > coarse_most) coarse = i, coarse_most = upper;
    }
    EXPECT_EQ(dice.race(probs, position), fine) << position;
    EXPECT_EQ(fine == coarse, position == 101) << "the control";
  }
}

// The control: a draw shared between two purposes must not pass.
TEST(UniformTest, SharedDrawsAreNoticed) {
  const auto draw = [](int i) { return uniform(3, i, Purpose::kDraft); };
  EXPECT_GT(chi_square_of_pairs(draw, draw), kBound);
  EXPECT_GT(chi_square_of_pairs(draw, [](int) { return uniform(3, 0, Purpose::kAccept); }), kBound);
}

TEST(UniformDeathTest, NegativePositionsAreMistakes) {
  EXPECT_DEATH(uniform(0, -1, Purpose::kDraft),
               "position -1 and index 0 of a draw to be at least 0");
  EXPECT_DEATH(uniform(0, 0, Purpose::kRace, -7), "position 0 and index -7");
}

}  // namespace
}  // namespace specdec
