// Operations on rows: fast against plain, to the bit, and plain against the definition in float64.
#include <algorithm>
#include <functional>
#include <limits>

#include "tests/special_numbers.h"
#include "tests/unit/kernels/cpu/stored_rows.h"

namespace specdec {
namespace {

// Calls check(numbers, fast, rows, width) over shapes and thread counts. Wide shapes are large
// enough to be split among threads.
void for_shapes(const std::function<void(TestNumbers&, Backend&, int rows, int width)>& check) {
  TestNumbers numbers(11);
  for (int width = 1; width <= 70; ++width) {
    check(numbers, fast_backend(1 + width % 3), numbers.between(1, 5), width);
  }
  for (int rows = 1; rows <= 64; ++rows) {
    check(numbers, fast_backend(1 + rows % 3), rows, numbers.between(1, 2000));
  }
  for (int threads = 1; threads <= 3; ++threads) check(numbers, fast_backend(threads), 7, 9001);
}

TEST(CpuRmsNorm, EqualsPlain) {
  for_shapes([](TestNumbers& numbers, Backend& fast, int rows, int width) {
    const TestRows x = TestRows::random(numbers, rows, width, numbers.below(9));
    const TestRows weight = TestRows::random(numbers, 1, width);
    TestRows got(rows, width, numbers.below(9)), want(rows, width);
    fast.rms_norm(x.view(), weight.row(0), 1e-5f, got.view());
    plain_backend().rms_norm(x.view(), weight.row(0), 1e-5f, want.view());
    ASSERT_TRUE(same_rows(got, want)) << rows << " x " << width;
  });
}

// Rounding errors: of each of the width squares and sums at most eps / 2 (all terms are positive,
// and each lane adds width / 16 of them, the tree 4), halved by the root; then the quotient, root
// and two products with half an eps each. Bounded from above by (width / 16 + 8) eps.
TEST(CpuRmsNorm, IsAccurate) {
  TestNumbers numbers(12);
  for (const int width : {1, 5, 16, 100, 768, 3072, 8192}) {
    const TestRows x = TestRows::random(numbers, 3, width);
    const TestRows weight = TestRows::random(numbers, 1, width);
    TestRows got(3, width);
    plain_backend().rms_norm(x.view(), weight.row(0), 1e-5f, got.view());
    const double bound = (width / 16.0 + 8) * std::numeric_limits<float>::epsilon();
    for (int t = 0; t < 3; ++t) {
      double squares = 0.0;
      for (int i = 0; i < width; ++i) squares += double{x.row(t)[i]} * x.row(t)[i];
      for (int i = 0; i < width; ++i) {
        const double want =
            x.row(t)[i] / std::sqrt(squares / width + double{1e-5f}) * weight.row(0)[i];
        ASSERT_LE(std::abs(got.row(t)[i] - want), bound * std::abs(want)) << width;
      }
    }
  }
}

TEST(CpuAdd, EqualsTheSum) {
  for_shapes([](TestNumbers& numbers, Backend& fast, int rows, int width) {
    TestRows x = TestRows::random(numbers, rows, width, numbers.below(9));
    const TestRows y = TestRows::random(numbers, rows, width, numbers.below(9));
    TestRows want(rows, width), plain_x = x;
    for (int t = 0; t < rows; ++t) {
      for (int i = 0; i < width; ++i) want.row(t)[i] = x.row(t)[i] + y.row(t)[i];
    }
    fast.add(x.view(), y.view());
    plain_backend().add(plain_x.view(), y.view());
    ASSERT_TRUE(same_rows(x, want));
    ASSERT_TRUE(same_rows(plain_x, want));
  });
}

TEST(CpuSiluMul, EqualsPlain) {
  for_shapes([](TestNumbers& numbers, Backend& fast, int rows, int width) {
    TestRows gate = TestRows::random(numbers, rows, width, numbers.below(9));
    const TestRows up = TestRows::random(numbers, rows, width, numbers.below(9));
    const float specials[] = {kNan, kInfinity, -kInfinity, 0.0f, -0.0f, 88.5f, -88.5f, -150.0f};
    for (int t = 0; t < rows; ++t) {
      for (int i = 0; i < width; ++i) gate.row(t)[i] *= 30.0f;
      if (numbers.below(3) == 0) gate.row(t)[numbers.below(width)] = specials[numbers.below(8)];
    }
    TestRows got(rows, width, numbers.below(9)), want(rows, width);
    fast.silu_mul(gate.view(), up.view(), got.view());
    plain_backend().silu_mul(gate.view(), up.view(), want.view());
    ASSERT_TRUE(same_rows(got, want)) << rows << " x " << width;
  });
}

// exp within 1 ulp, a sum, a quotient and a product with half an ulp each: 4 eps cover it.
TEST(CpuSiluMul, IsAccurate) {
  TestNumbers numbers(13);
  TestRows gate = TestRows::random(numbers, 10, 1000), up = TestRows::random(numbers, 10, 1000);
  TestRows got(10, 1000);
  for (int t = 0; t < 10; ++t) {
    for (int i = 0; i < 1000; ++i) gate.row(t)[i] *= 8.0f * static_cast<float>(t + 1);
  }
  plain_backend().silu_mul(gate.view(), up.view(), got.view());
  for (int t = 0; t < 10; ++t) {
    for (int i = 0; i < 1000; ++i) {
      const double z = gate.row(t)[i], want = z / (1.0 + std::exp(-z)) * up.row(t)[i];
      ASSERT_LE(std::abs(got.row(t)[i] - want),
                4.0 * std::numeric_limits<float>::epsilon() * std::abs(want))
          << z;
    }
  }
}

TEST(CpuRope, EqualsPlainAndTheFormula) {
  TestNumbers numbers(14);
  for (const int half : {1, 2, 3, 7, 8, 16, 17, 32, 64}) {
    for (int rows = 1; rows < 40; rows += 4) {
      const int heads = numbers.between(1, 8);
      TestRows x = TestRows::random(numbers, rows, heads * 2 * half, numbers.below(9));
      const TestRows cosines = TestRows::random(numbers, rows, half, numbers.below(9));
      const TestRows sines = TestRows::random(numbers, rows, half, numbers.below(9));
      const TestRows before = x;
      TestRows plain_x = x;
      fast_backend(1 + rows % 3).rope(x.view(), cosines.view(), sines.view());
      plain_backend().rope(plain_x.view(), cosines.view(), sines.view());
      ASSERT_TRUE(same_rows(x, plain_x)) << half;
      for (int t = 0; t < rows; ++t) {
        for (int i = 0; i < heads * 2 * half; ++i) {
          const int pair = i % half, first = i / (2 * half) * 2 * half + pair;
          const bool is_first = i % (2 * half) < half;
          const double a = before.row(t)[first], b = before.row(t)[first + half];
          const double cosine = cosines.row(t)[pair], sine = sines.row(t)[pair];
          const double want = is_first ? a * cosine - b * sine : b * cosine + a * sine;
          ASSERT_NEAR(x.row(t)[i], want, 2.0 * std::numeric_limits<float>::epsilon());
        }
      }
    }
  }
}

TEST(CpuRopeAngles, AreOfTheRoundedProduct) {
  const std::int32_t positions[] = {0, 1, 7, 4095, 131071};
  const float frequencies[] = {1.0f, 0.3f, 1e-4f};
  for (Backend* backend : {&plain_backend(), &fast_backend(2)}) {
    TestRows cosines(5, 3, 1), sines(5, 3);
    backend->rope_angles(positions, frequencies, cosines.view(), sines.view());
    for (int t = 0; t < 5; ++t) {
      for (int i = 0; i < 3; ++i) {
        const float angle = static_cast<float>(positions[t]) * frequencies[i];
        EXPECT_NEAR(cosines.row(t)[i], std::cos(double{angle}), 1e-7);
        EXPECT_NEAR(sines.row(t)[i], std::sin(double{angle}), 1e-7);
      }
    }
  }
}

TEST(CpuArgmax, EqualsTheDefinition) {
  TestNumbers numbers(15);
  for (int round = 0; round < 3000; ++round) {
    const int rows = numbers.between(1, 4);
    const int width = round % 100 == 0 ? 30000 : numbers.between(1, 100);
    TestRows x(rows, width, numbers.below(5));
    std::vector<std::int32_t> want(static_cast<std::size_t>(rows)), got = want, plain_got = want;
    for (int t = 0; t < rows; ++t) {
      // Few different values, so that equal ones are common; among them -inf, 0 and -0.
      const float values[] = {-kInfinity, -2.5f, -0.0f, 0.0f, 1.5f, kInfinity};
      const int kinds = numbers.between(1, 6);
      for (int i = 0; i < width; ++i) x.row(t)[i] = values[numbers.below(kinds)];
      if (numbers.below(4) == 0) x.row(t)[numbers.below(width)] = kNan;
      int best = 0;
      bool nan = false;
      for (int i = 0; i < width; ++i) {
        nan = nan || std::isnan(x.row(t)[i]);
        if (x.row(t)[i] > x.row(t)[best]) best = i;
      }
      want[static_cast<std::size_t>(t)] = nan ? -1 : best;
    }
    fast_backend(1 + round % 3).argmax(x.view(), got);
    plain_backend().argmax(x.view(), plain_got);
    ASSERT_EQ(got, want);
    ASSERT_EQ(plain_got, want);
  }
}

TEST(CpuMemory, GathersAndFills) {
  TestNumbers numbers(16);
  for (Backend* backend : {&plain_backend(), &fast_backend(3)}) {
    const TestRows x = TestRows::random(numbers, 9, 21, 4);
    const std::int32_t rows[] = {8, 0, 0, 5};
    TestRows out(4, 21, 2);
    backend->gather_rows(x.view(), rows, out.view());
    for (int t = 0; t < 4; ++t) {
      EXPECT_TRUE(same_rows(out.view().slice(t, 1), x.view().slice(rows[t], 1)));
    }
    EXPECT_TRUE(out.gaps_untouched());

    backend->fill(out.view(), 2.5f);
    EXPECT_EQ(out.row(3)[20], 2.5f);
    EXPECT_TRUE(out.gaps_untouched());
  }
}

// In its slots what the cache's type holds of k and v, and nothing in others.
TEST(CpuMemory, StoresKeysAndValues) {
  TestNumbers numbers(17);
  for (Backend* backend : {&plain_backend(), &fast_backend(3)}) {
    for (const KvType type : kKvTypes) {
      TestRows k = TestRows::random(numbers, 3, 6, 1), v = TestRows::random(numbers, 3, 6, 2);
      k.row(1)[2] = kNan;
      TestRows want_keys(5, 6), want_values(5, 6);
      std::vector<std::byte> keys = stored(want_keys, type), values = stored(want_values, type);
      const std::int32_t slots[] = {4, 0, 2};
      const RowPlaces places{.slots = slots};
      backend->store_kv(k.view(), v.view(), places, {keys.data(), values.data(), type});
      for (int t = 0; t < 3; ++t) {
        std::copy_n(k.row(t), 6, want_keys.row(slots[t]));
        std::copy_n(v.row(t), 6, want_values.row(slots[t]));
      }
      EXPECT_EQ(keys, stored(want_keys, type));
      EXPECT_EQ(values, stored(want_values, type));
    }
  }
}

TEST(CpuMemory, AllocatesAlignedBlocks) {
  for (Backend* backend : {&plain_backend(), &fast_backend(2)}) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{65},
                                    std::size_t{3} << 20, (std::size_t{5} << 20) + 1}) {
      DeviceArray<char> block(*backend, bytes);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data()) % 64, 0u);
      std::vector<char> there(bytes, 'x'), back(bytes);
      backend->upload(there.data(), block.data(), bytes);
      backend->download(block.data(), back.data(), bytes);
      EXPECT_EQ(back, there);
    }
    EXPECT_THROW(backend->allocate(std::numeric_limits<std::size_t>::max() - 3), std::bad_alloc);
  }
}

}  // namespace
}  // namespace specdec
