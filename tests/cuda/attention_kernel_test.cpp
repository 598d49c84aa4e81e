#include "tests/cuda/attention_steps.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

class AttentionKernel : public KernelTest {};

void expect_near_plain(const Scene& scene) {
  Scene on_host = scene;
  const TestRows want = on_host.run(plain_backend()), units = rounding(scene);
  for (const Step& step : kSteps) {
    ASSERT_TRUE(near_rows(run(step, scene), want, units, 0x1p-24)) << fmt::format(
        "{}, {}:{} heads of {}, pages of {}, first length {}", step.name, scene.heads.n_heads,
        scene.heads.n_kv_heads, scene.heads.head_dim, scene.page_size, scene.lengths[0]);
  }
}

// ---- near the plain loops

TEST_F(AttentionKernel, IsNearPlainForHeadShapes) {
  TestNumbers numbers(31);
  for (const int head_dim : {2, 6, 20, 34, 64, 96, 128, 130, 256}) {
    for (const int ratio : {1, 3, 8}) {  // of query heads to key and value heads
      const int kv_heads = numbers.between(1, 2);
      expect_near_plain(make_scene(numbers, {ratio * kv_heads, kv_heads, head_dim},
                                   numbers.between(1, 20), {numbers.between(1, 150)},
                                   numbers.between(1, 7)));
    }
  }
}

TEST_F(AttentionKernel, IsNearPlainForGroupsOfAnySize) {
  TestNumbers numbers(32);
  for (const int ratio : {2, 4, 5, 6, 7, 15, 16, 17, 40}) {
    for (const int head_dim : {18, 32}) {
      expect_near_plain(make_scene(numbers, {2 * ratio, 2, head_dim}, 3,
                                   {numbers.between(1, 80), numbers.between(1, 80)}, 4));
    }
  }
}

TEST_F(AttentionKernel, IsNearPlainForContexts) {
  TestNumbers numbers(33);
  const int page_sizes[] = {1, 3, 16, 512};
  int round = 0;
  for (const int length : {1,   2,   15,  16,  17,  31,  32,  33,  63,  64,  65, 96,
                           127, 128, 129, 160, 255, 256, 257, 300, 383, 384, 385}) {
    for (const int head_dim : {6, 64}) {
      expect_near_plain(
          make_scene(numbers, {2, 1, head_dim}, page_sizes[round % 4], {length}, 1 + round % 4));
      ++round;
    }
  }
}

TEST_F(AttentionKernel, IsNearPlainForALongContext) {
  TestNumbers numbers(34);
  for (const int page_size : {1, 16, 8192}) {
    expect_near_plain(make_scene(numbers, {3, 1, 64}, page_size, {5000}, 2));
  }
}

TEST_F(AttentionKernel, IsNearPlainForRaggedBatches) {
  TestNumbers numbers(35);
  const int page_sizes[] = {1, 3, 16, 512};
  for (int round = 0; round < 12; ++round) {
    std::vector<int> lengths;
    for (int i = numbers.between(2, 6); i > 0; --i) lengths.push_back(numbers.between(1, 300));
    expect_near_plain(
        make_scene(numbers, {4, 2, 16}, page_sizes[round % 4], lengths, numbers.between(1, 12)));
  }
}

// Heads that only the first kernel takes.
TEST_F(AttentionKernel, IsNearPlainForVeryWideHeads) {
  TestNumbers numbers(36);
  Scene scene = make_scene(numbers, {2, 1, 258}, 3, {140}, 3);
  EXPECT_TRUE(near_rows(run({"backend", of_backend}, scene), scene.run(plain_backend()),
                        rounding(scene), 0x1p-24));
}

// ---- exactly

// Rows of the first sequence at these positions, with queries of zeros.
Scene at_positions(Scene scene, std::vector<std::int32_t> positions) {
  scene.q = TestRows(static_cast<int>(positions.size()), scene.q_width());
  for (int t = 0; t < scene.q.rows(); ++t) std::fill_n(scene.q.row(t), scene.q_width(), 0.0f);
  scene.slots.assign(positions.size(), 0);  // attention reads none
  scene.table_starts.assign(positions.size(), 0);
  scene.positions = std::move(positions);
  return scene;
}

// Each row gives all its weight to two positions (all other weights, e^-1000, are 0). Its result is
// exactly the mean of their values, or the first value if the second position is masked. So no
// position is lost or counted twice, and none after the row's own is read, at any border of tiles,
// chunks, pieces and pages.
TEST_F(AttentionKernel, FindsEachPosition) {
  TestNumbers numbers(37);
  const std::vector<int> needles = {0,   1,   15,  16,  31,  32,  63, 64,
                                    127, 128, 129, 191, 255, 256, 299};
  struct Search {
    std::size_t first, second;  // of needles
    int position;               // of the row
  };
  std::vector<Search> searches;
  std::vector<std::int32_t> positions;
  for (std::size_t second = 1; second < needles.size(); ++second) {
    for (std::size_t first = 0; first < second; ++first) {
      for (const int position : {needles[second], needles[second] - 1, 299}) {
        searches.push_back({first, second, position});
        positions.push_back(position);
      }
    }
  }
  for (const int head_dim : {18, 64}) {
    Scene scene = at_positions(make_scene(numbers, {1, 1, head_dim}, 3, {300}, 1), positions);
    for (int j = 0; j < 300; ++j) std::fill_n(scene.keys.row(scene.slot(0, j)), head_dim, 0.0f);
    for (std::size_t i = 0; i < needles.size(); ++i) {
      scene.keys.row(scene.slot(0, needles[i]))[i] = 1.0f;
    }
    for (int t = 0; t < scene.q.rows(); ++t) {
      const Search& search = searches[static_cast<std::size_t>(t)];
      const float score = 1000.0f * std::sqrt(static_cast<float>(head_dim));
      scene.q.row(t)[search.first] = scene.q.row(t)[search.second] = score;
    }
    for (const Step& step : kSteps) {
      const TestRows got = run(step, scene);
      for (int t = 0; t < got.rows(); ++t) {
        const auto [first, second, position] = searches[static_cast<std::size_t>(t)];
        const float* a = scene.values.row(scene.slot(0, needles[first]));
        const float* b = scene.values.row(scene.slot(0, needles[second]));
        for (int d = 0; d < head_dim; ++d) {
          ASSERT_EQ(got.row(t)[d], position < needles[second] ? a[d] : (a[d] + b[d]) / 2)
              << fmt::format("{}, row at {}, positions {} and {}", step.name, position,
                             needles[first], needles[second]);
        }
      }
    }
  }
}

// ---- bit for bit

TEST_F(AttentionKernel, RowsAloneAndInAnyCompanyAreEqual) {
  TestNumbers numbers(38);
  for (const HeadShape heads : {HeadShape{6, 2, 20}, HeadShape{4, 1, 64}, HeadShape{2, 2, 128}}) {
    const Scene scene = make_scene(numbers, heads, 3, {77, 1, 261, 128, 129, 20}, 5);
    for (const Step& step : kSteps) {
      const TestRows all = run(step, scene);
      std::vector<int> order = range(0, all.rows());
      for (int round = 0; round < 6; ++round) {
        numbers.shuffle(order);
        order.resize(static_cast<std::size_t>(round < 3 ? 1 : numbers.between(2, all.rows())));
        ASSERT_TRUE(same_rows_of(run(step, rows_of(scene, order)), all, order)) << step.name;
        order = range(0, all.rows());
      }
    }
  }
}

// Rows of two sequences alternate, and a sequence has more rows after those of another one.
TEST_F(AttentionKernel, RowsOfTwoSequencesInTurnAreEqual) {
  TestNumbers numbers(39);
  const Scene scene = make_scene(numbers, {4, 1, 32}, 4, {90, 200}, 8);
  const std::vector<int> order = {0, 8, 1, 9, 10, 2, 3, 11, 4, 12, 13, 14, 5, 6, 15, 7};
  for (const Step& step : kSteps) {
    ASSERT_TRUE(same_rows_of(run(step, rows_of(scene, order)), run(step, scene), order))
        << step.name;
  }
}

// While a chunk is computed, later positions are not in the cache yet.
TEST_F(AttentionKernel, PrefillInChunksIsEqual) {
  TestNumbers numbers(40);
  for (const int page_size : {1, 16}) {
    const Scene scene = make_scene(numbers, {3, 1, 64}, page_size, {150}, 150);
    for (const Step& step : kSteps) {
      const TestRows all = run(step, scene);
      for (const int size : {1, 7, 64}) {
        for (int first = 0; first < 150; first += size * (size == 1 ? 37 : 1)) {
          const std::vector<int> rows = range(first, std::min(150, first + size));
          Scene chunk = rows_of(scene, rows);
          for (int j = rows.back() + 1; j < 150; ++j) {
            std::fill_n(chunk.keys.row(chunk.slot(0, j)), chunk.kv_width(), kNan);
            std::fill_n(chunk.values.row(chunk.slot(0, j)), chunk.kv_width(), kNan);
          }
          ASSERT_TRUE(same_rows_of(run(step, chunk), all, rows)) << step.name;
        }
      }
    }
  }
}

TEST_F(AttentionKernel, PageLayoutChangesNothing) {
  TestNumbers numbers(41);
  const Scene contiguous = make_scene(numbers, {4, 2, 32}, 512, {303}, 4);
  for (const int page_size : {1, 3, 16, 100}) {
    Scene paged = contiguous;
    paged.page_size = page_size;
    paged.page_tables.clear();
    paged.first_of_table.clear();
    paged.scatter_pages(numbers);
    for (int j = 0; j < 303; ++j) {
      const int from = contiguous.slot(0, j), to = paged.slot(0, j);
      std::copy_n(contiguous.keys.row(from), 64, paged.keys.row(to));
      std::copy_n(contiguous.values.row(from), 64, paged.values.row(to));
    }
    for (const Step& step : kSteps) {
      ASSERT_TRUE(same_rows(run(step, paged), run(step, contiguous))) << step.name;
    }
  }
}

// The bits do not change if the grid has more pieces than any row reaches, if scratch is short, or
// if there is only one piece, which needs no scratch.
TEST_F(AttentionKernel, ContextAndScratchChangeNothing) {
  TestNumbers numbers(42);
  const Step engine = kSteps[4];
  for (const int length : {1, 100, 127, 128, 129, 257, 400}) {
    for (const int head_dim : {10, 64}) {
      const Scene scene = make_scene(numbers, {3, 1, head_dim}, 16, {length, 40}, 7);
      const TestRows want = run(engine, scene);
      for (const int above : {1, 30, 500, 3000}) {
        ASSERT_TRUE(same_rows(run(engine, scene, above), want)) << length << " and " << above;
      }
      for (const Step& step : kSameBits) {
        ASSERT_TRUE(same_rows(run(step, scene), want)) << step.name << ", " << length;
      }
    }
  }
}

// How rows are grouped changes no bits, whether groups end at a multiple or where the next sequence
// begins, which may be the same row.
TEST_F(AttentionKernel, GroupsChangeNothing) {
  TestNumbers numbers(49);
  const Step groups[] = {{"1 row", grouped<1>},
                         {"2 rows", grouped<2>},
                         {"3 rows", grouped<3>},
                         {"5 rows", grouped<5>},
                         {"as many as fit", grouped<kManyRows>},
                         {"2 rows, in pieces", split<kManyRows, 2>},
                         {"5 rows, in pieces", split<kManyRows, 5>},
                         {"runs unknown", [](const Operands& o) { of_backend_without_runs(o); }}};
  for (const HeadShape heads : {HeadShape{2, 2, 20}, HeadShape{3, 1, 128}, HeadShape{8, 2, 64}}) {
    for (const int rows : {1, 4, 6, 7}) {
      const Scene scene = make_scene(numbers, heads, 3, {70, 3, 129, 33}, rows);
      const TestRows want = run(kSteps[4], scene);
      for (const Step& step : groups) {
        ASSERT_TRUE(same_rows(run(step, scene), want)) << step.name << ", " << rows << " rows";
      }
    }
  }
}

#ifdef SPECDEC_EMULATED
// Blocks of a call with 3 heads per key and value head: 20 queries of 128 elements fit, so 6 rows.
std::size_t blocks_of(int rows, int kv_heads, int context, int sequences) {
  TestNumbers numbers(50);
  const Scene scene =
      make_scene(numbers, {3 * kv_heads, kv_heads, 128}, 16,
                 std::vector<int>(static_cast<std::size_t>(sequences), context), rows);
  const emulation::Traffic before = emulation::traffic();
  run({"grouped", grouped<kRowsByBlocks>}, scene);
  return (emulation::traffic() - before).blocks;
}

// A block for one row while there are few; for 2 rows, which are 6 queries, so at most 2 for each
// warp; and for as many as fit. Each further sequence adds at most one group.
TEST_F(AttentionKernel, FewBlocksHaveFewRows) {
  EXPECT_EQ(blocks_of(6, 8, 20, 1), 6u * 8u);
  EXPECT_EQ(blocks_of(33, 8, 40, 1), 33u * 8u);    // 264, two for each of 132 multiprocessors
  EXPECT_EQ(blocks_of(34, 8, 40, 1), 17u * 8u);    // in pairs
  EXPECT_EQ(blocks_of(100, 8, 100, 1), 17u * 8u);  // 6 rows, and the last 4
  EXPECT_EQ(blocks_of(50, 8, 60, 2), (17u + 1u) * 8u);
}

// The last block of each group of queries combines their pieces.
TEST_F(AttentionKernel, AContextInPiecesIsOneLaunch) {
  TestNumbers numbers(57);
  const Scene scene = make_scene(numbers, {6, 2, 64}, 16, {700, 20}, 5);
  const emulation::Traffic before = emulation::traffic();
  run(kSteps[4], scene);
  EXPECT_EQ((emulation::traffic() - before).launches, 1u);
}
#endif

// ---- a cache of bf16

// Every step gives the same bits as with the same numbers in float32, so all tests with float32
// apply to bf16, too.
void expect_bits_of_float32(const Scene& scene) {
  for (const Step& step : kSteps) {
    ASSERT_TRUE(same_rows(run(step, scene), run(step, scene.in_float32()))) << fmt::format(
        "{}, {}:{} heads of {}, pages of {}, first length {}", step.name, scene.heads.n_heads,
        scene.heads.n_kv_heads, scene.heads.head_dim, scene.page_size, scene.lengths[0]);
  }
}

TEST_F(AttentionKernel, BF16GivesTheBitsOfItsNumbers) {
  TestNumbers numbers(47);
  for (const int head_dim : {2, 6, 8, 20, 34, 36, 64, 84, 96, 128, 130, 132, 256}) {
    for (const int ratio : {1, 3, 8}) {
      expect_bits_of_float32(make_scene(numbers, {2 * ratio, 2, head_dim}, numbers.between(1, 20),
                                        {numbers.between(1, 300), numbers.between(1, 60)},
                                        numbers.between(1, 7), KvType::kBF16));
    }
    expect_bits_of_float32(
        make_tree_scene(numbers, {3, 1, head_dim}, 3, {150, 20}, 12, KvType::kBF16));
  }
}

TEST_F(AttentionKernel, BF16TakesWideHeads) {
  TestNumbers numbers(48);
  const Scene scene = make_scene(numbers, {2, 1, 2 * kMaxHeadDim}, 3, {40}, 2, KvType::kBF16);
  const Step engine = kSteps[4];
  EXPECT_TRUE(same_rows(run(engine, scene), run(engine, scene.in_float32())));
}

// ---- what is masked, and NaN

// After the pages that a row may read, tables continue with entries outside the cache; reading
// through one of them would crash.
TEST_F(AttentionKernel, MaskedPagesAreNotLookedUp) {
  TestNumbers numbers(43);
  for (const int page_size : {1, 3, 16}) {
    for (const int length : {1, 5, 64, 128, 140}) {
      Scene scene = make_scene(numbers, {4, 2, 16}, page_size, {length}, 1);
      scene.page_tables.insert(scene.page_tables.end(), 300, 0x3fffffff / page_size);
      expect_near_plain(scene);
    }
  }
}

// Whether exactly the elements for which sees(row, column) holds are NaN, by every step.
template <typename Sees>
void expect_nan_where(const Scene& scene, const Sees& sees) {
  for (const Step& step : kSteps) {
    const TestRows out = run(step, scene);
    for (int t = 0; t < out.rows(); ++t) {
      for (int i = 0; i < out.width(); ++i) {
        ASSERT_EQ(std::isnan(out.row(t)[i]), sees(t, i))
            << step.name << ", row " << t << ", column " << i;
      }
    }
  }
}

// A NaN in a key makes the heads that read it NaN in rows that attend to it; a NaN in a value makes
// only that element NaN.
TEST_F(AttentionKernel, NanReachesOnlyThoseWhoSeeIt) {
  TestNumbers numbers(44);
  for (const int position : {130, 197}) {
    const Scene scene = make_scene(numbers, {4, 2, 16}, 4, {200, 30}, 75);
    const auto sees = [&](int t) {
      const auto row = static_cast<std::size_t>(t);
      return scene.table_starts[row] == 0 && scene.positions[row] >= position;
    };
    Scene bad_key = scene, bad_value = scene;
    bad_key.keys.row(scene.slot(0, position))[3] = kNan;  // seen by query heads 0 and 1
    expect_nan_where(bad_key, [&](int t, int i) { return sees(t) && i < 2 * 16; });
    bad_value.values.row(scene.slot(0, position))[16 + 5] = kNan;  // by query heads 2 and 3
    expect_nan_where(bad_value, [&](int t, int i) { return sees(t) && i >= 32 && i % 16 == 5; });
  }
}

TEST_F(AttentionKernel, NanInAQueryStaysInItsHead) {
  TestNumbers numbers(45);
  Scene scene = make_scene(numbers, {4, 2, 16}, 4, {200}, 9);
  scene.q.row(4)[16] = kNan;
  expect_nan_where(scene, [](int t, int i) { return t == 4 && 16 <= i && i < 32; });
}

// ---- many rows, and the memory for them

// More rows than a grid has in y and z.
TEST_F(AttentionKernel, TakesAnyNumberOfRows) {
  constexpr int kRows = 66'000;
  TestNumbers numbers(46);
  std::vector<std::int32_t> positions;
  for (int t = 0; t < kRows; ++t) positions.push_back(t % 4096 == 4095 ? 139 : t % 3);
  Scene scene = at_positions(make_scene(numbers, {1, 1, 2}, 16, {140}, 1), positions);
  scene.q = TestRows::random(numbers, kRows, 2);
  EXPECT_TRUE(near_rows(run({"backend", of_backend}, scene), scene.run(plain_backend()),
                        rounding(scene), 0x1p-24));
}

TEST_F(AttentionKernel, ScratchIsBounded) {
  const HeadShape heads{24, 8, 128};
  const std::size_t row = attention_scratch(1, heads, 4096);
  EXPECT_EQ(row, std::size_t{24 * 32 * 130});
  EXPECT_EQ(attention_scratch(1, heads, 4097), std::size_t{24 * 33 * 130});
  EXPECT_EQ(attention_scratch(100, heads, 4096), 100 * row);
  EXPECT_EQ(attention_scratch(100'000, heads, 4096), (16u << 20) / row * row);  // 64 MiB
  EXPECT_EQ(attention_scratch(100'000, heads, 1'000'000), attention_scratch(1, heads, 1'000'000));
}

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
