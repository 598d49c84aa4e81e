#include <limits>

#include "tests/unit/kernels/cpu/attention_scene.h"

namespace specdec {
namespace {

class CpuAttention : public ::testing::TestWithParam<KvType> {
 protected:
  Scene scene_of(TestNumbers& numbers, HeadShape heads, int page_size, std::vector<int> lengths,
                 int rows) const {
    return make_scene(numbers, heads, page_size, std::move(lengths), rows, GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(Types, CpuAttention, ::testing::ValuesIn(kKvTypes), kv_type_name);

// Of every type: the bits that plain loops give over the same numbers in float32.
void expect_equal_to_plain(const Scene& scene) {
  const TestRows want = scene.in_float32().run(plain_backend());
  ASSERT_TRUE(same_rows(scene.run(plain_backend()), want));
  for (int t = 0; t < want.rows(); ++t) {
    for (int i = 0; i < want.width(); ++i) ASSERT_TRUE(std::isfinite(want.row(t)[i]));
  }
  for (int threads = 1; threads <= 3; ++threads) {
    ASSERT_TRUE(same_rows(scene.run(fast_backend(threads)), want)) << fmt::format(
        "{} threads, {}:{} heads of {}, pages of {}, first length {}", threads, scene.heads.n_heads,
        scene.heads.n_kv_heads, scene.heads.head_dim, scene.page_size, scene.lengths[0]);
  }
}

TEST_P(CpuAttention, EqualsPlainForHeadShapes) {
  TestNumbers numbers(21);
  for (const int head_dim :
       {2, 4, 6, 8, 10, 14, 16, 18, 30, 32, 34, 48, 62, 64, 80, 96, 126, 128}) {
    for (const int ratio : {1, 2, 3, 4, 8, 33, 71}) {  // of query heads to key and value heads
      const int kv_heads = numbers.between(1, 3);
      const int length = numbers.between(1, 140);
      Scene scene = scene_of(numbers, {ratio * kv_heads, kv_heads, head_dim},
                             numbers.between(1, 20), {length}, numbers.between(1, 9));
      expect_equal_to_plain(scene);
    }
  }
}

TEST_P(CpuAttention, EqualsPlainForEveryContext) {
  TestNumbers numbers(22);
  for (int length = 1; length <= 300; ++length) {
    const int page_sizes[] = {1, 3, 16, 256, 512};
    Scene scene = scene_of(numbers, {3, 1, 24}, page_sizes[length % 5], {length}, 1 + length % 4);
    expect_equal_to_plain(scene);
  }
}

TEST_P(CpuAttention, EqualsPlainForALongContext) {
  TestNumbers numbers(23);
  for (const int page_size : {1, 16, 8192}) {
    Scene scene = scene_of(numbers, {6, 2, 32}, page_size, {5000}, 3);
    expect_equal_to_plain(scene);
  }
}

TEST_P(CpuAttention, EqualsPlainForManySequences) {
  TestNumbers numbers(24);
  for (int round = 0; round < 40; ++round) {
    std::vector<int> lengths;
    for (int i = numbers.between(1, 9); i > 0; --i) lengths.push_back(numbers.between(1, 200));
    const int page_sizes[] = {1, 3, 16, 256};
    Scene scene =
        scene_of(numbers, {4, 2, 16}, page_sizes[round % 4], lengths, numbers.between(1, 12));
    expect_equal_to_plain(scene);
  }
}

// A row of a tree gives what a table of its own would give it.
TEST_P(CpuAttention, ATailIsATableOfItsOwn) {
  TestNumbers numbers(29);
  for (int round = 0; round < 200; ++round) {
    const int page_sizes[] = {1, 3, 16, 256};
    const int nodes = numbers.between(1, 24);
    std::vector<int> lengths;
    for (int i = numbers.between(1, 3); i > 0; --i) {
      lengths.push_back(round % 2 == 0 ? numbers.between(nodes, 40 + nodes)
                                       : numbers.between(100, 210));
    }
    Scene tree =
        make_tree_scene(numbers, {4, 2, 16}, page_sizes[round % 4], lengths, nodes, GetParam());
    Scene tables = tree.with_a_table_for_each_row();
    const TestRows want = tables.run(plain_backend());
    ASSERT_TRUE(same_rows(tree.run(plain_backend()), want));
    expect_equal_to_plain(tree);
    expect_equal_to_plain(tables);
  }
}

// A row's result stands, whatever the other rows of the call, their order and the pages.
TEST_P(CpuAttention, RowsAloneAndInAnyCompanyAreEqual) {
  TestNumbers numbers(25);
  Scene scene = scene_of(numbers, {6, 2, 20}, 3, {77, 1, 130, 64, 65, 20}, 5);
  const TestRows all = scene.run(fast_backend(2));
  const Scene whole = scene;
  std::vector<std::int32_t> order(static_cast<std::size_t>(all.rows()));
  for (std::size_t t = 0; t < order.size(); ++t) order[t] = static_cast<std::int32_t>(t);
  for (int round = 0; round < 60; ++round) {
    numbers.shuffle(order);
    const int count = round < 20 ? 1 : numbers.between(1, all.rows());
    scene.q = TestRows(count, scene.q_width());
    for (int t = 0; t < count; ++t) {
      const auto from = static_cast<std::size_t>(order[static_cast<std::size_t>(t)]);
      const auto to = static_cast<std::size_t>(t);
      scene.positions[to] = whole.positions[from];
      scene.table_starts[to] = whole.table_starts[from];
      std::copy_n(whole.q.row(order[to]), scene.q_width(), scene.q.row(t));
    }
    const TestRows some = scene.run(fast_backend(1 + round % 3));
    for (int t = 0; t < count; ++t) {
      ASSERT_TRUE(same_rows(some.view().slice(t, 1),
                            all.view().slice(order[static_cast<std::size_t>(t)], 1)));
    }
  }
}

TEST_P(CpuAttention, PageLayoutChangesNothing) {
  const HeadShape heads{4, 2, 32};
  TestNumbers numbers(26);
  Scene contiguous = scene_of(numbers, heads, 256, {203}, 4);
  const TestRows want = contiguous.run(fast_backend(2));
  for (const int page_size : {1, 2, 3, 16, 64, 100, 203}) {
    Scene paged;
    paged.heads = heads;
    paged.type = GetParam();
    paged.page_size = page_size;
    paged.lengths = {203};
    paged.scatter_pages(numbers);
    for (int j = 0; j < 203; ++j) {
      std::copy_n(contiguous.keys.row(contiguous.slot(0, j)), 64, paged.keys.row(paged.slot(0, j)));
      std::copy_n(contiguous.values.row(contiguous.slot(0, j)), 64,
                  paged.values.row(paged.slot(0, j)));
    }
    paged.choose_rows(numbers, 4);
    paged.q = contiguous.q;
    ASSERT_TRUE(same_rows(paged.run(fast_backend(2)), want)) << page_size;
  }
}

// Tables go on behind the pages that a row may see, with entries that lead out of the cache;
// looking one of them up would crash.
TEST_P(CpuAttention, MaskedPagesAreNotLookedUp) {
  TestNumbers numbers(29);
  for (const int page_size : {1, 3, 16}) {
    for (const int length : {1, 5, 64, 70, 130}) {
      Scene scene = scene_of(numbers, {4, 2, 16}, page_size, {length}, 1);
      scene.page_tables.insert(scene.page_tables.end(), 300, 0x3fffffff / page_size);
      expect_equal_to_plain(scene);
    }
  }
}

// A NaN among a row's own keys makes this head of this row NaN, and no other.
TEST_P(CpuAttention, NanInAKeyReachesOnlyThoseWhoSeeIt) {
  TestNumbers numbers(27);
  Scene scene = scene_of(numbers, {4, 2, 16}, 4, {70, 30}, 6);
  scene.keys.row(scene.slot(0, 67))[3] = kNan;  // key head 0, seen by query heads 0 and 1
  for (Backend* backend : {&plain_backend(), &fast_backend(1), &fast_backend(2)}) {
    const TestRows out = scene.run(*backend);
    for (int t = 0; t < out.rows(); ++t) {
      const bool sees = t < 6 && scene.positions[static_cast<std::size_t>(t)] >= 67;
      for (int i = 0; i < out.width(); ++i) {
        ASSERT_EQ(std::isnan(out.row(t)[i]), sees && i < 2 * 16) << t << " " << i;
      }
    }
  }
}

// Against the formula in float64. A score has an absolute error of at most
// (D / 16 + 5) eps |q| |k| / sqrt(D), and a weight has that as its relative error, twice (the
// maximum's error cancels in the quotient, the denominator's does not), beside 2 eps of exp; the
// sum over n values adds (n + rescalings) eps / 2. Values are below 1.
TEST_P(CpuAttention, IsAccurate) {
  TestNumbers numbers(28);
  for (const int length : {1, 63, 64, 65, 300, 2000}) {
    const int dim = 48;
    Scene scene = scene_of(numbers, {2, 1, dim}, 16, {length}, 1);
    const TestRows out = scene.run(fast_backend(2));
    for (int h = 0; h < 2; ++h) {
      const float* q = scene.q.row(0) + h * dim;
      std::vector<double> scores(static_cast<std::size_t>(length)), want(dim, 0.0);
      double maximum = -1e300, largest_product = 0.0, total = 0.0;
      for (int j = 0; j < length; ++j) {
        const float* k = scene.keys.row(scene.slot(0, j));
        double dot = 0.0, product = 0.0;
        for (int d = 0; d < dim; ++d) dot += double{q[d]} * k[d];
        for (int d = 0; d < dim; ++d) product += std::abs(double{q[d]} * k[d]);
        scores[static_cast<std::size_t>(j)] = dot / std::sqrt(double{dim});
        maximum = std::max(maximum, scores[static_cast<std::size_t>(j)]);
        largest_product = std::max(largest_product, product / std::sqrt(double{dim}));
      }
      for (int j = 0; j < length; ++j) {
        const double weight = std::exp(scores[static_cast<std::size_t>(j)] - maximum);
        const float* v = scene.values.row(scene.slot(0, j));
        for (int d = 0; d < dim; ++d) want[static_cast<std::size_t>(d)] += weight * v[d];
        total += weight;
      }
      const double bound = std::numeric_limits<float>::epsilon() *
                           (2 * (dim / 16 + 5) * largest_product + 4 + 0.5 * length + length / 64);
      for (int d = 0; d < dim; ++d) {
        ASSERT_LE(std::abs(out.row(0)[h * dim + d] - want[static_cast<std::size_t>(d)] / total),
                  bound)
            << length;
      }
    }
  }
}

}  // namespace
}  // namespace specdec
