// The passes of sampling over a vocabulary: their bits, which a GPU must give too, and their order.
#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/cpu/exponential.h"
#include "kernels/cpu/softmax.h"
#include "tests/special_numbers.h"
#include "tests/unit/kernels/cpu/cpu_test_support.h"

namespace specdec {
namespace {

constexpr std::size_t kSizes[] = {1, 31, 32, 33, 255, 256, 257, 1000, 4096, 8192, 8193, 20'011};

std::vector<float> random_scores(TestNumbers& numbers, std::size_t n) {
  std::vector<float> scores(n);
  for (float& score : scores) score = numbers.below(20) == 0 ? -kInfinity : 20 * numbers.number();
  scores[n / 2] = 20;
  return scores;
}

std::vector<double> random_weights(TestNumbers& numbers, std::size_t n) {
  std::vector<double> weights(n, 0.0);
  for (double& weight : weights) {
    if (numbers.below(3) > 0) weight = std::exp(30.0 * numbers.number());
  }
  return weights;
}

// ---- the order of sums, as kernels/sampling.h has it, one number after the other ----

double plain_segment_sum(std::span<const double> weights) {
  double sums[32] = {};
  for (std::size_t i = 0; i < weights.size(); ++i) sums[i % 32] += weights[i];
  for (std::size_t half = 16; half > 0; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) sums[l] += sums[l + half];
  }
  return sums[0];
}

// The running sums of values, the first of which has `before` in front of it.
std::vector<double> plain_running_sums(double before, const std::vector<double>& values) {
  std::vector<double> result;
  for (std::size_t first = 0; first < values.size(); first += 32) {
    std::vector<double> row(32, 0.0);
    std::copy_n(values.begin() + std::ptrdiff_t(first),
                std::min<std::size_t>(32, values.size() - first), row.begin());
    for (std::size_t distance = 1; distance < 32; distance *= 2) {
      const std::vector<double> left = row;
      for (std::size_t l = distance; l < 32; ++l) row[l] = left[l] + left[l - distance];
    }
    for (const double sum : row) result.push_back(before + sum);
    before += row[31];
  }
  return result;
}

std::vector<double> plain_segment_sums(const std::vector<double>& weights) {
  std::vector<double> sums;
  for (std::size_t first = 0; first < weights.size(); first += 256) {
    sums.push_back(plain_segment_sum(
        std::span(weights).subspan(first, std::min<std::size_t>(256, weights.size() - first))));
  }
  return sums;
}

double plain_sum(const std::vector<double>& weights) {
  return plain_running_sums(0, plain_segment_sums(weights)).back();
}

// The first value above 0 whose running sum exceeds the mark, or the last one above 0.
std::size_t plain_place(double mark, double before, const std::vector<double>& values) {
  const auto sums = plain_running_sums(before, values);
  std::size_t last = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!(values[i] > 0)) continue;
    last = i;
    if (sums[i] > mark) break;
  }
  return last;
}

std::size_t plain_first_above(double mark, const std::vector<double>& weights) {
  const auto sums = plain_segment_sums(weights);
  const std::size_t segment = plain_place(mark, 0, sums), first = 256 * segment;
  const double before = segment == 0 ? 0 : plain_running_sums(0, sums)[segment - 1];
  const std::vector<double> values(
      weights.begin() + std::ptrdiff_t(first),
      weights.begin() + std::ptrdiff_t(std::min(first + 256, weights.size())));
  return first + plain_place(mark, before, values);
}

// ---- e^x ----

TEST(CpuExponential64, IsAccurate) {
  long double worst = 0;
  for (int i = 0; i <= 2'000'000; ++i) {
    const double x = -708.0 * i / 2'000'000;
    const long double want = std::exp(static_cast<long double>(x));
    const long double error = std::abs((cpu::exponential64(x) - want) / want);
    // A unit of the last place, and what n ln 2 is off by.
    const long double bound = 0x1p-52L + std::abs(x) / std::log(2.0L) * 2.4e-17L;
    if (!(error / bound <= worst)) worst = error / bound;
  }
  EXPECT_LE(worst, 1);
}

TEST(CpuExponential64, SpecialValues) {
  EXPECT_EQ(cpu::exponential64(0.0), 1);
  EXPECT_EQ(cpu::exponential64(-0.0), 1);
  EXPECT_EQ(cpu::exponential64(-0x1p-60), 1);
  EXPECT_EQ(cpu::exponential64(-1e300), 0);
  EXPECT_EQ(cpu::exponential64(-std::numeric_limits<double>::infinity()), 0);
  EXPECT_EQ(cpu::exponential64(-708.0000001), 0);
  EXPECT_GE(cpu::exponential64(-708.0), std::numeric_limits<double>::min());
}

TEST(CpuExponential64, VectorEqualsScalar) {
  TestNumbers numbers(1);
  for (int round = 0; round < 50'000; ++round) {
    double x[cpu::kDoubles], got[cpu::kDoubles];
    for (double& value : x) value = -std::exp(12.0 * numbers.number());
    cpu::store(got, cpu::exponential64(cpu::load(x)));
    for (int i = 0; i < cpu::kDoubles; ++i) ASSERT_EQ(got[i], cpu::exponential64(x[i])) << x[i];
  }
}

// The bits themselves, recorded: one set on every machine, and on GPUs.
TEST(CpuExponential64, Bits) {
  std::uint64_t hash = 14695981039346656037u;
  for (int i = 0; i < 100'000; ++i) {
    const double weight = cpu::exponential64(-i * 0.0070101);
    hash = (hash ^ std::bit_cast<std::uint64_t>(weight)) * 1099511628211u;
  }
  EXPECT_EQ(hash, 12568071595585971143u);
}

// ---- passes ----

TEST(CpuSoftmax, LargestScore) {
  TestNumbers numbers(2);
  for (const std::size_t n : kSizes) {
    auto scores = random_scores(numbers, n);
    EXPECT_EQ(cpu::largest_score(scores), *std::ranges::max_element(scores));
    for (int repeat = 0; repeat < 20; ++repeat) {
      auto& score = scores[static_cast<std::size_t>(numbers.below(static_cast<int>(n)))];
      const float before = score;
      score = 21;
      EXPECT_EQ(cpu::largest_score(scores), 21);
      for (const float bad : {kInfinity, std::nanf(""), -std::nanf("")}) {
        score = bad;
        EXPECT_TRUE(std::isnan(cpu::largest_score(scores))) << n;
      }
      score = before;
    }
    std::ranges::fill(scores, -kInfinity);
    EXPECT_EQ(cpu::largest_score(scores), -kInfinity);
  }
}

TEST(CpuSoftmax, WeightsAndTheirSumHaveTheOrdersBits) {
  TestNumbers numbers(3);
  for (const std::size_t n : kSizes) {
    const auto scores = random_scores(numbers, n);
    std::vector<double> weights(n + 1, -1), want;
    const double total = cpu::exponentiate(scores, 20, 0.7, std::span(weights).first(n));
    EXPECT_EQ(weights[n], -1);
    weights.pop_back();
    for (const float score : scores) want.push_back(cpu::exponential64((score - 20.0) * 0.7));
    EXPECT_EQ(weights, want);
    EXPECT_EQ(total, plain_sum(want)) << n;
    EXPECT_EQ(total, cpu::sum_of_exponentials(scores, 20, 0.7));
    cpu::multiply(weights, 0.3);
    for (double& weight : want) weight *= 0.3;
    EXPECT_EQ(weights, want);
  }
}

TEST(CpuSoftmax, SumsHaveTheOrdersBits) {
  TestNumbers numbers(4);
  for (const std::size_t n : kSizes) {
    const auto weights = random_weights(numbers, n);
    EXPECT_EQ(cpu::sum(weights), plain_sum(weights)) << n;
    std::vector<std::int32_t> ids;
    std::vector<double> kept, dense(n, 0.0);
    for (std::size_t i = 0; i < n; i += 1 + static_cast<std::size_t>(numbers.below(700))) {
      ids.push_back(static_cast<std::int32_t>(i));
      kept.push_back(weights[i]);
      dense[i] = weights[i];
    }
    EXPECT_EQ(cpu::sum(ids, kept), plain_sum(dense)) << n;
  }
}

TEST(CpuSoftmax, ANegativeWeightHasNoSum) {
  for (const std::size_t n : kSizes) {
    for (const std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
      std::vector<double> weights(n, 1.0);
      for (const double bad : {-1.0, -5e-324, std::nan("")}) {
        weights[at] = bad;
        EXPECT_TRUE(std::isnan(cpu::sum(weights))) << n << " " << at;
      }
      weights[at] = -0.0;
      EXPECT_EQ(cpu::sum(weights), static_cast<double>(n - 1));
    }
  }
}

TEST(CpuSoftmax, TheFirstAboveTheMarkIsThatOfTheRunningSums) {
  TestNumbers numbers(5);
  for (const std::size_t n : kSizes) {
    const auto weights = random_weights(numbers, n);
    const double total = cpu::sum(weights);
    if (total == 0) continue;
    for (int repeat = 0; repeat < 50; ++repeat) {
      const double mark = total * (numbers.number() + 1.0) / 2;
      EXPECT_EQ(static_cast<std::size_t>(cpu::first_above(mark, weights)),
                plain_first_above(mark, weights));
    }
    EXPECT_EQ(static_cast<std::size_t>(cpu::first_above(total, weights)),
              plain_first_above(total, weights));
  }
  EXPECT_EQ(cpu::first_above(0, std::vector<double>(300, 0.0)), -1);
}

TEST(CpuSoftmax, CollectsInTheOrderOfIds) {
  TestNumbers numbers(6);
  for (const std::size_t n : kSizes) {
    const auto scores = random_scores(numbers, n);
    for (const float bound : {-kInfinity, -5.0f, 18.0f, 20.0f, 21.0f}) {
      std::vector<std::int32_t> ids(n), want;
      std::vector<float> kept(n);
      for (std::size_t i = 0; i < n; ++i) {
        if (scores[i] >= bound) want.push_back(static_cast<std::int32_t>(i));
      }
      ids.resize(cpu::collect_at_least(bound, scores, ids, kept));
      EXPECT_EQ(ids, want);
      for (std::size_t j = 0; j < ids.size(); ++j) {
        EXPECT_EQ(kept[j], scores[static_cast<std::size_t>(ids[j])]);
      }
    }
  }
}

TEST(CpuSoftmax, UnitsAreWholeNumbers) {
  TestNumbers numbers(8);
  for (const std::size_t n : kSizes) {
    std::vector<double> weights(n);
    std::uint64_t want = 0;
    double above = 0;
    for (double& weight : weights) {
      weight = std::exp(-20.0 + 20.0 * numbers.number());  // down to 2^-57
      if (numbers.below(10) == 0) weight = numbers.below(2);
      want += static_cast<std::uint64_t>(std::nearbyint(weight * 0x1p44));
      above += weight >= 1e-9 ? weight : 0;
    }
    EXPECT_EQ(cpu::sum_of_units(weights), want);
    EXPECT_NEAR(cpu::sum_at_least(1e-9, weights), above, 1e-12 * above);
  }
}

TEST(CpuSoftmax, ColumnsHaveTheirLargest) {
  TestNumbers numbers(7);
  for (const std::size_t n : kSizes) {
    const auto scores = random_scores(numbers, n);
    for (std::size_t columns = 16; columns <= n; columns *= 3) {
      std::vector<float> maxima(columns), want(columns, -kInfinity);
      for (std::size_t i = 0; i < n; ++i) {
        want[i % columns] = std::max(want[i % columns], scores[i]);
      }
      cpu::column_maxima(scores, maxima);
      EXPECT_EQ(maxima, want);
    }
  }
}

}  // namespace
}  // namespace specdec
