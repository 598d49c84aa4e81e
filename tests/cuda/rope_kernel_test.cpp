#include "kernels/cuda/rope.h"
#include "tests/cuda/kernel_test.h"
#include "tests/unit/kernels/cpu/stored_rows.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

class RopeKernel : public KernelTest {};

// Distinct slots below `end`, in any order.
std::vector<std::int32_t> random_slots(TestNumbers& numbers, int count, int end) {
  std::vector<std::int32_t> slots;
  for (int s = 0; s < end; ++s) slots.push_back(s);
  numbers.shuffle(slots);
  slots.resize(static_cast<std::size_t>(count));
  return slots;
}

// A cosine or sine is below 1, and its errors are those of the C library (below 1 unit in the last
// place) and of CUDA (2, for any angle): 3 * 2^-24. In the emulation, both are the same.
TEST_F(RopeKernel, AnglesAreNearTheHosts) {
  TestNumbers numbers(51);
  for (const int half : {1, 3, 32, 64, 200}) {
    std::vector<std::int32_t> positions = {0, 1, 4095, 131'071, 131'072};
    for (int t = 0; t < 20; ++t) positions.push_back(numbers.below(131'073));
    std::vector<float> frequencies = {1.0f};
    for (int i = 1; i < half; ++i) frequencies.push_back(std::fabs(numbers.number()));
    const int rows = static_cast<int>(positions.size());
    TestRows cosines(rows, half), sines(rows, half);
    plain_backend().rope_angles(positions.data(), frequencies.data(), cosines.view(), sines.view());

    const OnDevice<std::int32_t> device_positions(positions);
    const OnDevice<float> device_frequencies(frequencies);
    const DeviceMatrix device_cosines(rows, half, 3), device_sines(rows, half, 5);
    rope_angles(device_positions.data(), device_frequencies.data(), device_cosines.view(),
                device_sines.view(), nullptr);
#ifdef SPECDEC_EMULATED
    EXPECT_TRUE(same_rows(device_cosines.get(), cosines));
    EXPECT_TRUE(same_rows(device_sines.get(), sines));
#else
    TestRows ones(rows, half);
    for (int t = 0; t < rows; ++t) std::fill_n(ones.row(t), half, 1.0f);
    EXPECT_TRUE(near_rows(device_cosines.get(), cosines, ones, 3 * 0x1p-24));
    EXPECT_TRUE(near_rows(device_sines.get(), sines, ones, 3 * 0x1p-24));
#endif
  }
}

// The same operations as the plain loops, each rounded in the same way: the same bits.
TEST_F(RopeKernel, TurnsAsThePlainLoops) {
  TestNumbers numbers(52);
  for (const int half : {1, 3, 32, 64, 100}) {
    for (const int heads : {1, 2, 7}) {
      const int rows = numbers.between(1, 9);
      TestRows x = TestRows::random(numbers, rows, 2 * half * heads);
      const TestRows cosines = TestRows::random(numbers, rows, half);
      const TestRows sines = TestRows::random(numbers, rows, half);
      const DeviceMatrix device_x(x.view(), 3), device_cosines(cosines.view(), 1),
          device_sines(sines.view(), 2);
      cuda::rope(device_x.view(), device_cosines.view(), device_sines.view(), nullptr);
      plain_backend().rope(x.view(), cosines.view(), sines.view());
      EXPECT_TRUE(same_rows(device_x.get(), x));
    }
  }
}

// q, k and v are neighbouring columns of one matrix, as in the engine.
struct Scene {
  int q_width, kv_width, half, slots;
  TestRows qkv, cosines, sines;
  std::vector<std::int32_t> row_slots;

  Scene(TestNumbers& numbers, int rows, int heads, int kv_heads, int half_, int slots_)
      : q_width(2 * half_ * heads),
        kv_width(2 * half_ * kv_heads),
        half(half_),
        slots(slots_),
        qkv(TestRows::random(numbers, rows, q_width + 2 * kv_width)),
        cosines(TestRows::random(numbers, rows, half)),
        sines(TestRows::random(numbers, rows, half)),
        row_slots(random_slots(numbers, rows, slots)) {}

  DeviceRows q(DeviceRows all) const { return all.columns(0, q_width); }
  DeviceRows k(DeviceRows all) const { return all.columns(q_width, kv_width); }
  DeviceRows v(DeviceRows all) const { return all.columns(q_width + kv_width, kv_width); }
};

enum class Way { kFused, kBackend, kFiner };

void expect_equal_to_plain(Scene scene, Way way, KvType type) {
  const DeviceMatrix qkv(scene.qkv.view(), 3), cosines(scene.cosines.view()),
      sines(scene.sines.view());
  std::vector<std::byte> want_keys = stored(TestRows(scene.slots, scene.kv_width), type);
  std::vector<std::byte> want_values = want_keys;
  const OnDevice<std::byte> keys(want_keys), values(want_values);
  const OnDevice<std::int32_t> slots(scene.row_slots);
  const KvLayer cache{keys.data(), values.data(), type};
  const RowPlaces places{.slots = slots.data()};
  const DeviceRows all = qkv.view();
  const DeviceRows q = scene.q(all), k = scene.k(all), v = scene.v(all);
  switch (way) {
    case Way::kFused:
      rope_store_kv(q, k, v, cosines.view(), sines.view(), places, cache, nullptr);
      break;
    case Way::kBackend:
      device().rope_store_kv(q, k, v, cosines.view(), sines.view(), places, cache);
      break;
    case Way::kFiner:
      device().Backend::rope_store_kv(q, k, v, cosines.view(), sines.view(), places, cache);
      break;
  }
  const DeviceRows host = scene.qkv.view();
  plain_backend().rope_store_kv(scene.q(host), scene.k(host), scene.v(host), scene.cosines.view(),
                                scene.sines.view(), {.slots = scene.row_slots.data()},
                                {want_keys.data(), want_values.data(), type});
  EXPECT_TRUE(same_rows(qkv.get(), scene.qkv));
  EXPECT_EQ(keys.get(), want_keys);  // other slots are unchanged
  EXPECT_EQ(values.get(), want_values);
}

TEST_F(RopeKernel, FusedStoresWhatTheFinerOnesStore) {
  TestNumbers numbers(53);
  for (const Way way : {Way::kFused, Way::kBackend, Way::kFiner}) {
    for (const int half : {1, 3, 32, 64}) {
      for (const int group : {1, 3, 8}) {
        const int kv_heads = numbers.between(1, 3), rows = numbers.between(1, 9);
        const Scene scene(numbers, rows, group * kv_heads, kv_heads, half, rows + 4);
        for (const KvType type : kKvTypes) expect_equal_to_plain(scene, way, type);
      }
    }
  }
}

// More rows than a grid has in y and z.
TEST_F(RopeKernel, TakesAnyNumberOfRows) {
  constexpr int kRows = 66'000;
  TestNumbers numbers(54);
  expect_equal_to_plain(Scene(numbers, kRows, 1, 1, 1, kRows), Way::kBackend, KvType::kF32);
}

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
