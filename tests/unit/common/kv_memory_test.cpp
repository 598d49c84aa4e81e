#include <cmath>
#include <vector>

#include "common/kv_cache.h"
#include "tests/test_support.h"
#include "tests/unit/common/memory_backend.h"

namespace specdec {
namespace {

using ::testing::StrEq;

TEST(KvMemoryTest, EachLayerHasKeysAndValuesOfItsOwn) {
  MemoryBackend backend;
  KvMemory memory(backend, {.n_layers = 3, .n_kv_heads = 2, .head_dim = 4}, 5);
  EXPECT_EQ(memory.slots(), 5);
  EXPECT_EQ(memory.shape().width(), 8);
  EXPECT_EQ(memory.shape().bytes_per_token(), 3u * 2 * 8 * 4);
  EXPECT_EQ(memory.bytes(), 5u * 3 * 2 * 8 * 4);
  float next = 0;
  for (int pass = 0; pass < 2; pass++) {
    float expected = 0;
    for (int l = 0; l < 3; l++) {
      for (float* numbers : {memory.layer(l).keys, memory.layer(l).values}) {
        for (int i = 0; i < 5 * 8; i++) {
          if (pass == 0) numbers[i] = next++;
          ASSERT_EQ(numbers[i], expected++) << "layer " << l;
        }
      }
    }
  }
}

TEST(KvMemoryTest, CopiesSlotsInEveryLayerAndNothingElse) {
  MemoryBackend backend;
  constexpr int kSlots = 10, kWidth = 6;
  KvMemory memory(backend, {.n_layers = 3, .n_kv_heads = 2, .head_dim = 3}, kSlots);
  for (const auto& [from, to, count] : std::vector<std::array<int, 3>>{
           {0, 7, 3}, {5, 2, 3}, {9, 0, 1}, {4, 9, 0}, {0, 5, 5}, {10, 3, 0}, {3, 3, 0}}) {
    std::vector<std::vector<float>> expected;
    for (int l = 0; l < 3; l++) {
      for (float* numbers : {memory.layer(l).keys, memory.layer(l).values}) {
        for (int i = 0; i < kSlots * kWidth; i++) {
          numbers[i] = static_cast<float>(1000 * expected.size()) + static_cast<float>(i);
        }
        expected.emplace_back(numbers, numbers + kSlots * kWidth);
        std::copy_n(numbers + from * kWidth, count * kWidth, expected.back().data() + to * kWidth);
      }
    }
    memory.copy(from, to, count);
    for (std::size_t n = 0; n < expected.size(); n++) {
      const KvLayer layer = memory.layer(static_cast<int>(n / 2));
      const float* numbers = n % 2 == 0 ? layer.keys : layer.values;
      EXPECT_EQ(std::vector<float>(numbers, numbers + kSlots * kWidth), expected[n])
          << "array " << n << ", " << from << " to " << to << ", " << count;
    }
  }
}

TEST(KvMemoryDeathTest, BadCopiesAbort) {
  MemoryBackend backend;
  KvMemory memory(backend, {.n_layers = 1, .n_kv_heads = 1, .head_dim = 2}, 10);
  EXPECT_DEATH(memory.copy(0, 2, 3), "3 slots from 0 and from 2 not to overlap");
  EXPECT_DEATH(memory.copy(2, 0, 3), "3 slots from 2 and from 0 not to overlap");
  EXPECT_DEATH(memory.copy(8, 0, 3), "3 slots from 8 and from 0 to be among 10");
  EXPECT_DEATH(memory.copy(0, 8, 3), "3 slots from 0 and from 8 to be among 10");
  EXPECT_DEATH(memory.copy(-1, 3, 1), "to be among 10");
  EXPECT_DEATH(memory.copy(3, 6, -1), "to be among 10");
  EXPECT_DEATH(memory.layer(1), "layer 1 to be one of 1");
  EXPECT_DEATH(memory.layer(-1), "layer -1 to be one of 1");
  EXPECT_DEATH(KvMemory(backend, memory.shape(), 0), "room for at least one token, not for 0");
  EXPECT_DEATH(KvMemory(backend, {}, 1), "at least one layer, head and element");
}

TEST(KvMemoryTest, WithoutMemoryItSaysHowMuchIsNeeded) {
  MemoryBackend backend(12'000'000);
  const KvShape target{.n_layers = 6, .n_kv_heads = 1, .head_dim = 128};
  EXPECT_THAT(error_message([&] { KvMemory(backend, target, 2048); }),
              StrEq("the KV cache needs 12.6 MB for 2048 tokens (6 layers of 1 x 128 keys and "
                    "values), and there is not enough memory; reduce --max-context or --pages"));
  EXPECT_EQ(backend.live_blocks(), 0u) << "the layers that had been allocated";
}

TEST(KvMemoryTest, SizesAreReadable) {
  const auto needs = [](const KvShape& shape, std::int64_t slots) {
    MemoryBackend backend(0);
    return error_message([&] { KvMemory(backend, shape, slots); });
  };
  EXPECT_THAT(needs({1, 1, 2}, 1),
              ::testing::StartsWith("the KV cache needs 16 bytes for 1 token"));
  EXPECT_THAT(needs({1, 1, 2}, 62), ::testing::HasSubstr("needs 992 bytes for"));
  EXPECT_THAT(needs({1, 1, 2}, 63), ::testing::HasSubstr("needs 1.0 kB for"));
  EXPECT_THAT(needs({1, 1, 2}, 62'499), ::testing::HasSubstr("needs 1.0 MB for"));
  EXPECT_THAT(needs({28, 8, 128}, 131'072), ::testing::HasSubstr("needs 30.1 GB for"));
}

TEST(KvMemoryTest, SizesBeyondAllIntegersAreRefused) {
  MemoryBackend backend;
  constexpr int kHuge = std::numeric_limits<int>::max();
  constexpr std::int64_t kHuger = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(
      error_message([&] {
        KvMemory(backend, {1, 1, 2}, std::int64_t{1} << 31);
      }),
      StrEq("the KV cache needs 34.4 GB for 2147483648 tokens, more than any cache here can "
            "hold; reduce --max-context or --pages"));
  EXPECT_ERROR(KvMemory(backend, {1, 1, 2}, kHuger),
               "needs 147.6 EB for 9223372036854775807 tokens");
  EXPECT_ERROR(KvMemory(backend, {kHuge, kHuge, kHuge}, kHuger),
               "more than any cache here can hold");
  EXPECT_ERROR(KvMemory(backend, {kHuge, 1, 1}, kHuge), "more than any cache here can hold");
  EXPECT_ERROR(KvMemory(backend, {1, 1 << 16, 1 << 15}, 1), "more than any cache here can hold");
  // The largest number of tokens there is: too much for this memory, and none of the products
  // wraps.
  EXPECT_ERROR(KvMemory(backend, {1 << 10, 1, 1 << 10}, kHuge), "and there is not enough memory");
  EXPECT_EQ(backend.live_blocks(), 0u);
}

TEST(CheckExtensionsDeathTest, WhatExtendRequires) {
  const std::vector<Extension> twice = {{1, 2}, {0, 1}, {1, 1}};
  EXPECT_DEATH(check_extensions(twice), "to extend sequence 1 once in a call");
  const std::vector<Extension> negative = {{1, 0}, {2, -1}};
  EXPECT_DEATH(check_extensions(negative), "sequence 2 by 0 or more tokens, not -1");
  check_extensions(std::span(twice).first(2));
  check_extensions({});
}

}  // namespace
}  // namespace specdec
