#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cuda/attention/attention.h"
#include "tests/cuda/kernel_test.h"
#include "tests/unit/kernels/cpu/attention_scene.h"

// The steps of attention as functions of the same operands, and scenes on the device.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

struct Operands {
  ConstDeviceRows q;
  KvLayer cache;
  RowPlaces places;
  HeadShape heads;
  DeviceRows out;
};

template <auto attention_kernel>
void step(const Operands& o) {
  attention_kernel(o.q, o.cache, o.places, o.heads, o.out, nullptr);
}

// With scratch for a given number of rows, full of NaN. The last block of each group leaves its
// count at zero.
template <auto attention_kernel, int rows>
void step_with_scratch(const Operands& o) {
  const OnDevice<float> scratch(
      std::vector<float>(attention_scratch(rows, o.heads, o.places.context), kNan));
  const std::vector<unsigned> zeros(static_cast<std::size_t>(rows * o.heads.n_heads), 0);
  const OnDevice<unsigned> blocks_done(zeros);
  attention_kernel(o.q, o.cache, o.places, o.heads, o.out,
                   {{scratch.data(), attention_scratch(rows, o.heads, o.places.context)},
                    {blocks_done.data(), zeros.size()}},
                   nullptr);
  EXPECT_EQ(blocks_done.get(), zeros);
}

inline void of_backend(const Operands& o) {
  device().attention(o.q, o.cache, o.places, o.heads, o.out);
}

inline void of_backend_without_context(Operands o) {
  o.places.context = 0;
  of_backend(o);
}

inline void of_backend_without_runs(Operands o) {
  o.places.runs = 0;
  o.places.run_starts = nullptr;
  of_backend(o);
}

inline constexpr int kManyRows = 1000;

// Step 3 with at most `most_rows` rows in a block, and step 4 with scratch for `rows` rows.
template <int most_rows>
void grouped(const Operands& o) {
  attention_grouped(o.q, o.cache, o.places, o.heads, o.out, nullptr, most_rows);
}
template <int most_rows>
void split_by(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
              const HeadShape& heads, DeviceRows out, const AttentionScratch& scratch,
              cudaStream_t stream) {
  attention_split(q, cache, places, heads, out, scratch, stream, most_rows);
}
template <int rows, int most_rows = kRowsByBlocks>
void split(const Operands& o) {
  step_with_scratch<split_by<most_rows>, rows>(o);
}

struct Step {
  const char* name;
  void (*run)(const Operands&);
};
inline constexpr Step kSteps[] = {
    {"naive", step<attention_naive>},
    {"warp", step<attention_warp>},
    {"grouped", grouped<kRowsByBlocks>},
    {"split", split<kManyRows>},
    {"engine", step_with_scratch<cuda::attention, kManyRows>},
};

// All variants that must give the same bits as the engine's.
inline constexpr Step kSameBits[] = {
    {"split", split<kManyRows>},
    {"split, a row at a time", split<1>},
    {"split, three rows at a time", split<3>},
    {"split, one row in a block", split<kManyRows, 1>},
    {"split, three rows in a block", split<kManyRows, 3>},
    {"split, as many rows as fit", split<kManyRows, kManyRows>},
    {"backend", of_backend},
    {"backend, context unknown", [](const Operands& o) { of_backend_without_context(o); }},
    {"backend, runs unknown", [](const Operands& o) { of_backend_without_runs(o); }},
};

// ---- scenes on the device

inline TestRows run(const Step& step, const Scene& scene, int context_above = 0) {
  const DeviceMatrix q(scene.q.view(), 3);
  const OnDevice<std::byte> keys(stored(scene.keys, scene.type)),
      values(stored(scene.values, scene.type));
  const OnDevice<std::int32_t> positions(scene.positions), slots(scene.slots),
      table_starts(scene.table_starts), page_tables(scene.page_tables),
      tail_firsts(scene.tail_firsts), tail_starts(scene.tail_starts), tail_slots(scene.tail_slots),
      run_starts(scene.run_starts());
  const int context =
      1 + *std::max_element(scene.positions.begin(), scene.positions.end()) + context_above;
  const DeviceMatrix out(scene.q.rows(), scene.q_width(), 5);
  RowPlaces places{positions.data(),   slots.data(),    table_starts.data(),
                   page_tables.data(), scene.page_size, context};
  places.run_starts = run_starts.data();
  places.runs = static_cast<int>(scene.run_starts().size());
  if (!scene.tail_firsts.empty()) {
    places.tail_firsts = tail_firsts.data();
    places.tail_starts = tail_starts.data();
    places.tail_slots = tail_slots.data();
  }
  step.run({.q = q.view(),
            .cache = {keys.data(), values.data(), scene.type},
            .places = places,
            .heads = scene.heads,
            .out = out.view()});
  return out.get();
}

// The rows `order` of a scene, as a separate pass.
inline Scene rows_of(const Scene& scene, const std::vector<int>& order) {
  Scene some = scene;
  some.q = TestRows(static_cast<int>(order.size()), scene.q_width());
  some.positions.clear();
  some.slots.clear();
  some.table_starts.clear();
  some.tail_firsts.clear();
  some.tail_starts.clear();
  for (const int t : order) {
    std::copy_n(scene.q.row(t), scene.q_width(),
                some.q.row(static_cast<int>(some.positions.size())));
    some.positions.push_back(scene.positions[static_cast<std::size_t>(t)]);
    some.slots.push_back(scene.slots[static_cast<std::size_t>(t)]);
    some.table_starts.push_back(scene.table_starts[static_cast<std::size_t>(t)]);
    if (scene.tail_firsts.empty()) continue;
    some.tail_firsts.push_back(scene.tail_firsts[static_cast<std::size_t>(t)]);
    some.tail_starts.push_back(scene.tail_starts[static_cast<std::size_t>(t)]);
  }
  return some;
}

inline std::vector<int> range(int first, int end) {
  std::vector<int> all;
  for (int t = first; t < end; ++t) all.push_back(t);
  return all;
}

// Rows `order` of `all`, side by side with `some`.
inline ::testing::AssertionResult same_rows_of(const TestRows& some, const TestRows& all,
                                               const std::vector<int>& order) {
  for (int t = 0; t < some.rows(); ++t) {
    const int from = order[static_cast<std::size_t>(t)];
    const auto same = same_rows(some.view().slice(t, 1), all.view().slice(from, 1));
    if (!same) return ::testing::AssertionFailure() << "row " << from << ": " << same.message();
  }
  return ::testing::AssertionSuccess();
}

// The error bound by rounding for a row and head, in units of 2^-24. A score is a sum of D
// products: its error is (D + 2) units of the sum of their magnitudes, and its weight has the same
// relative error. So have the sum of the weights and the sum of weights times values, which are
// below 1. A sum of n terms adds n units, and the exponentials and scalings a few. The quotient has
// the errors of both sums, and the difference those of both programs.
inline TestRows rounding(const Scene& scene) {
  const int D = scene.heads.head_dim, group = scene.heads.n_heads / scene.heads.n_kv_heads;
  TestRows units(scene.q.rows(), scene.q_width());
  for (int t = 0; t < units.rows(); ++t) {
    const auto row = static_cast<std::size_t>(t);
    const std::int32_t* pages = scene.page_tables.data() + scene.table_starts[row];
    for (int h = 0; h < scene.heads.n_heads; ++h) {
      float largest = 0.0f;
      for (int j = 0; j <= scene.positions[row]; ++j) {
        const int slot = pages[j / scene.page_size] * scene.page_size + j % scene.page_size;
        float products = 0.0f;
        for (int d = 0; d < D; ++d) {
          products +=
              std::fabs(scene.q.row(t)[h * D + d] * scene.keys.row(slot)[h / group * D + d]);
        }
        largest = std::max(largest, products / std::sqrt(static_cast<float>(D)));
      }
      const auto n = static_cast<float>(scene.positions[row] + 1), d = static_cast<float>(D);
      std::fill_n(units.row(t) + h * D, D, 2 * (2 * (d + 2) * largest + 2 * n + 32));
    }
  }
  return units;
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
