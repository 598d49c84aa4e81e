#pragma once
#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "tests/special_numbers.h"
#include "tests/unit/kernels/cpu/stored_rows.h"

namespace specdec {

// Sequences in a paged cache, and a pass over the last `rows` tokens of each. The pages are in
// random order, and every slot that no token uses is full of NaN.
struct Scene {
  HeadShape heads;
  KvType type = KvType::kF32;
  int page_size = 1;
  std::vector<int> lengths;               // cached tokens of each sequence
  std::vector<std::int32_t> page_tables;  // one table after the other
  std::vector<std::int32_t> first_of_table;
  TestRows keys{1, 1}, values{1, 1};                         // [slots, Hkv * D], of the type
  std::vector<std::int32_t> positions, slots, table_starts;  // [T]
  std::vector<std::int32_t> tail_firsts, tail_starts;        // [T], or empty: no tails
  std::vector<std::int32_t> tail_slots;
  TestRows q{1, 1};  // [T, H * D]

  int kv_width() const { return heads.n_kv_heads * heads.head_dim; }
  int q_width() const { return heads.n_heads * heads.head_dim; }
  int pages_of(int length) const { return (length + page_size - 1) / page_size; }
  RowPlaces places() const {
    RowPlaces all{positions.data(), slots.data(), table_starts.data(), page_tables.data(),
                  page_size};
    if (!tail_firsts.empty()) {
      all.tail_firsts = tail_firsts.data();
      all.tail_starts = tail_starts.data();
      all.tail_slots = tail_slots.data();
    }
    return all;
  }
  // Of RowPlaces.
  std::vector<std::int32_t> run_starts() const {
    std::vector<std::int32_t> starts;
    for (int t = 0; t < q.rows(); ++t) {
      const auto row = static_cast<std::size_t>(t);
      if (t == 0 || table_starts[row] != table_starts[row - 1]) starts.push_back(t);
    }
    return starts;
  }
  int slot(int sequence, int position) const {
    const auto start = static_cast<std::size_t>(first_of_table[static_cast<std::size_t>(sequence)]);
    return page_tables[start + static_cast<std::size_t>(position / page_size)] * page_size +
           position % page_size;
  }

  void scatter_pages(TestNumbers& numbers) {
    int pages = 0;
    for (const int length : lengths) {
      first_of_table.push_back(pages);
      pages += pages_of(length);
    }
    for (int page = 0; page < pages; ++page) page_tables.push_back(page);
    numbers.shuffle(page_tables);
    keys = TestRows(pages * page_size, kv_width());
    values = TestRows(pages * page_size, kv_width());
    for (TestRows* all : {&keys, &values}) {
      for (int s = 0; s < all->rows(); ++s) std::fill_n(all->row(s), all->width(), kNan);
    }
  }

  void write_tokens(TestNumbers& numbers) {
    for (int sequence = 0; sequence < static_cast<int>(lengths.size()); ++sequence) {
      for (int j = 0; j < lengths[static_cast<std::size_t>(sequence)]; ++j) {
        for (int i = 0; i < kv_width(); ++i) {
          keys.row(slot(sequence, j))[i] = held(3.0f * numbers.number(), type);
          values.row(slot(sequence, j))[i] = held(numbers.number(), type);
        }
      }
    }
  }

  // The last `rows` tokens of every sequence.
  void choose_rows(TestNumbers& numbers, int rows) {
    for (int sequence = 0; sequence < static_cast<int>(lengths.size()); ++sequence) {
      const int length = lengths[static_cast<std::size_t>(sequence)];
      for (int j = std::max(0, length - rows); j < length; ++j) {
        positions.push_back(j);
        slots.push_back(slot(sequence, j));
        table_starts.push_back(first_of_table[static_cast<std::size_t>(sequence)]);
      }
    }
    const int count = static_cast<int>(positions.size());
    q = TestRows::random(numbers, count, q_width(), numbers.below(9));
  }

  // Makes the last `nodes` places of every sequence a tree of random shape, with one row each.
  void choose_tree(TestNumbers& numbers, int nodes) {
    for (int sequence = 0; sequence < static_cast<int>(lengths.size()); ++sequence) {
      const int length = lengths[static_cast<std::size_t>(sequence)];
      const int begin = std::max(0, length - nodes);
      std::vector<std::vector<std::int32_t>> paths;  // of each node: the slots of its path
      for (int place = begin; place < length; ++place) {
        const int parent = numbers.between(-1, place - begin - 1);
        std::vector<std::int32_t> path;
        if (parent >= 0) path = paths[static_cast<std::size_t>(parent)];
        path.push_back(slot(sequence, place));
        positions.push_back(begin + static_cast<int>(path.size()) - 1);
        slots.push_back(path.back());
        table_starts.push_back(first_of_table[static_cast<std::size_t>(sequence)]);
        tail_firsts.push_back(begin);
        tail_starts.push_back(static_cast<std::int32_t>(tail_slots.size()));
        tail_slots.insert(tail_slots.end(), path.begin(), path.end());
        paths.push_back(std::move(path));
      }
    }
    q = TestRows::random(numbers, static_cast<int>(positions.size()), q_width(), numbers.below(9));
  }

  // The same for kernels without tails: pages of one slot, and a table for every row.
  Scene with_a_table_for_each_row() const {
    Scene other = *this;
    other.page_size = 1;
    other.page_tables.clear();
    other.table_starts.clear();
    other.tail_firsts.clear();
    for (int t = 0; t < q.rows(); ++t) {
      const auto row = static_cast<std::size_t>(t);
      other.table_starts.push_back(static_cast<std::int32_t>(other.page_tables.size()));
      for (int j = 0; j <= positions[row]; ++j) {
        const int page = page_tables[static_cast<std::size_t>(table_starts[row] + j / page_size)];
        other.page_tables.push_back(
            j < tail_firsts[row]
                ? page * page_size + j % page_size
                : tail_slots[static_cast<std::size_t>(tail_starts[row] + j - tail_firsts[row])]);
      }
    }
    return other;
  }

  // The same numbers in a cache of float32.
  Scene in_float32() const {
    Scene other = *this;
    other.type = KvType::kF32;
    return other;
  }

  TestRows run(Backend& backend) const {
    TestRows out(q.rows(), q_width(), 3);
    std::vector<std::byte> stored_keys = stored(keys, type), stored_values = stored(values, type);
    backend.attention(q.view(), {stored_keys.data(), stored_values.data(), type}, places(), heads,
                      out.view());
    return out;
  }
};

inline Scene make_scene(TestNumbers& numbers, HeadShape heads, int page_size,
                        std::vector<int> lengths, int rows, KvType type = KvType::kF32) {
  Scene scene;
  scene.heads = heads;
  scene.type = type;
  scene.page_size = page_size;
  scene.lengths = std::move(lengths);
  scene.scatter_pages(numbers);
  scene.write_tokens(numbers);
  scene.choose_rows(numbers, rows);
  return scene;
}

// Sequences whose last `nodes` tokens are trees.
inline Scene make_tree_scene(TestNumbers& numbers, HeadShape heads, int page_size,
                             std::vector<int> lengths, int nodes, KvType type = KvType::kF32) {
  Scene scene = make_scene(numbers, heads, page_size, std::move(lengths), 0, type);
  scene.choose_tree(numbers, nodes);
  return scene;
}

}  // namespace specdec
