// Attention of the nodes of a tree. In every step of the ladder, each node gets, bit for bit, the
// result that a page table of its own would give.
#include <utility>

#include "tests/cuda/attention_steps.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

class AttentionTreeKernel : public KernelTest {};

void expect_tails_equal_tables(const Scene& tree) {
  const Scene tables = tree.with_a_table_for_each_row();
  for (const Step& step : kSteps) {
    ASSERT_TRUE(same_rows(run(step, tree), run(step, tables)))
        << fmt::format("{}, {}:{} heads of {}, pages of {}, first length {}, {} rows", step.name,
                       tree.heads.n_heads, tree.heads.n_kv_heads, tree.heads.head_dim,
                       tree.page_size, tree.lengths[0], tree.q.rows());
  }
}

TEST_F(AttentionTreeKernel, ATailIsATableOfItsOwn) {
  TestNumbers numbers(51);
  const int page_sizes[] = {1, 3, 16, 256};
  int round = 0;
  for (const HeadShape heads : {HeadShape{6, 2, 20}, HeadShape{4, 1, 64}, HeadShape{2, 2, 128},
                                HeadShape{8, 1, 18}, HeadShape{2, 1, 130}}) {
    for (const int nodes : {1, 2, 7, 12, 30}) {
      const std::vector<int> lengths = {numbers.between(nodes, 50 + nodes), numbers.between(1, 300),
                                        nodes + 2};
      expect_tails_equal_tables(
          make_tree_scene(numbers, heads, page_sizes[round++ % 4], lengths, nodes));
    }
  }
}

// Trees that begin before, at and after the borders of tiles and pieces, and cross them.
TEST_F(AttentionTreeKernel, AtEveryBorder) {
  TestNumbers numbers(52);
  for (int first = 0; first < 140; first += first % 16 == 1 ? 11 : 1) {
    expect_tails_equal_tables(
        make_tree_scene(numbers, {3, 1, first % 2 == 0 ? 64 : 130}, 3, {first + 9}, 9));
  }
}

// A block's rows share their context and have tails of very different lengths: the deepest reach
// the next piece, and some have nothing in it.
TEST_F(AttentionTreeKernel, ALongBranchBesideShortOnes) {
  TestNumbers numbers(53);
  for (const int first : {100, 120, 127, 128, 250}) {
    Scene tree = make_tree_scene(numbers, {3, 1, 64}, 16, {first + 40}, 40);
    const auto depth = [&](int t) { return tree.positions[static_cast<std::size_t>(t)] - first; };
    std::vector<int> order = range(0, 40);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return depth(a) > depth(b); });
    expect_tails_equal_tables(rows_of(tree, order));
    std::reverse(order.begin(), order.end());
    expect_tails_equal_tables(rows_of(tree, order));
  }
}

TEST_F(AttentionTreeKernel, RowsAloneAndInAnyCompanyAreEqual) {
  TestNumbers numbers(54);
  const Scene scene = make_tree_scene(numbers, {6, 2, 64}, 3, {77, 140, 20}, 12);
  for (const Step& step : kSteps) {
    const TestRows all = run(step, scene);
    for (int round = 0; round < 8; ++round) {
      std::vector<int> order = range(0, all.rows());
      numbers.shuffle(order);
      order.resize(static_cast<std::size_t>(round < 3 ? 1 : numbers.between(2, all.rows())));
      ASSERT_TRUE(same_rows_of(run(step, rows_of(scene, order)), all, order)) << step.name;
    }
  }
}

// Rows with and without tails: a tree and a chain in one pass.
TEST_F(AttentionTreeKernel, ChainsBesideTrees) {
  TestNumbers numbers(55);
  Scene scene = make_tree_scene(numbers, {4, 2, 32}, 4, {90, 200}, 8);
  for (int t = 8; t < 16; ++t) {  // the second sequence as a chain
    const auto row = static_cast<std::size_t>(t);
    scene.positions[row] = 192 + t - 8;
    scene.tail_firsts[row] = std::numeric_limits<std::int32_t>::max();
  }
  Scene chain = rows_of(scene, range(8, 16));
  chain.tail_firsts.clear();
  const Scene tree = rows_of(scene, range(0, 8));
  for (const Step& step : kSteps) {
    const TestRows both = run(step, scene);
    ASSERT_TRUE(same_rows(both.view().slice(0, 8), run(step, tree).view())) << step.name;
    ASSERT_TRUE(same_rows(both.view().slice(8, 8), run(step, chain).view())) << step.name;
  }
}

// ---- what is kept of a tree

TEST_F(AttentionTreeKernel, MovesInTheirOrder) {
  TestNumbers numbers(56);
  for (const auto& [type, width] : {std::pair(KvType::kF32, 1),
                                    {KvType::kF32, 30},
                                    {KvType::kF32, 515},
                                    {KvType::kBF16, 2},
                                    {KvType::kBF16, 128},
                                    {KvType::kBF16, 514}}) {
    for (const int count : {0, 1, 5, 64, 65, 200}) {
      constexpr int kSlots = 300;
      const TestRows keys = TestRows::random(numbers, kSlots, width);
      const TestRows values = TestRows::random(numbers, kSlots, width);
      std::vector<SlotMove> moves;
      for (int i = 0; i < count; ++i) {
        const int from = numbers.below(kSlots);
        moves.push_back({from, (from + numbers.between(1, kSlots - 1)) % kSlots});
      }
      TestRows want_keys = keys, want_values = values;
      for (const auto [from, to] : moves) {
        std::copy_n(want_keys.row(from), width, want_keys.row(to));
        std::copy_n(want_values.row(from), width, want_values.row(to));
      }
      const OnDevice<std::byte> device_keys(stored(keys, type)),
          device_values(stored(values, type));
      device().move_slots({device_keys.data(), device_values.data(), type}, width, moves);
      ASSERT_EQ(device_keys.get(), stored(want_keys, type)) << width << " " << count;
      ASSERT_EQ(device_values.get(), stored(want_values, type)) << width << " " << count;
    }
  }
}

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
