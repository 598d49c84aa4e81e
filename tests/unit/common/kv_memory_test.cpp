#include <cmath>
#include <vector>

#include "common/kv_cache.h"
#include "tests/kv_types.h"
#include "tests/test_support.h"
#include "tests/unit/common/memory_backend.h"

namespace specdec {
namespace {

using ::testing::StrEq;

void store(float number, float& to) { to = number; }
void store(float number, BFloat16& to) { to = {cpu::bf16_from_float(number)}; }

class KvMemoryTest : public ::testing::TestWithParam<KvType> {
 protected:
  // The arrays of a memory: keys and values of each layer.
  static std::vector<std::byte*> arrays(const KvMemory& memory) {
    std::vector<std::byte*> all;
    for (int l = 0; l < memory.shape().n_layers; l++) {
      EXPECT_EQ(memory.layer(l).type, GetParam());
      for (void* rows : {memory.layer(l).keys, memory.layer(l).values}) {
        all.push_back(static_cast<std::byte*>(rows));
      }
    }
    return all;
  }
  // Fills the arrays with bytes of which neighbours differ, and returns them.
  static std::vector<std::vector<std::byte>> filled(const KvMemory& memory) {
    std::vector<std::vector<std::byte>> contents;
    const std::size_t bytes = memory.bytes() / arrays(memory).size();
    for (std::byte* array : arrays(memory)) {
      for (std::size_t i = 0; i < bytes; i++) {
        array[i] = static_cast<std::byte>(i * 7 + contents.size() * 31);
      }
      contents.emplace_back(array, array + bytes);
    }
    return contents;
  }
  static void expect_contents(const KvMemory& memory,
                              const std::vector<std::vector<std::byte>>& expected) {
    for (std::size_t n = 0; n < expected.size(); n++) {
      const std::byte* array = arrays(memory)[n];
      EXPECT_EQ(std::vector<std::byte>(array, array + expected[n].size()), expected[n])
          << "array " << n;
    }
  }

  MemoryBackend backend_;
};
INSTANTIATE_TEST_SUITE_P(Types, KvMemoryTest, ::testing::ValuesIn(kKvTypes), kv_type_name);

TEST_P(KvMemoryTest, EachLayerHasKeysAndValuesOfItsOwn) {
  const KvMemory memory(backend_,
                        {.n_layers = 3, .n_kv_heads = 2, .head_dim = 4, .type = GetParam()}, 5);
  const std::size_t number = GetParam() == KvType::kF32 ? 4 : 2;
  EXPECT_EQ(memory.slots(), 5);
  EXPECT_EQ(memory.shape().width(), 8);
  EXPECT_EQ(memory.shape().key_bytes(), 8 * number);
  EXPECT_EQ(memory.shape().bytes_per_token(), 3u * 2 * 8 * number);
  EXPECT_EQ(memory.bytes(), 5u * 3 * 2 * 8 * number);
  EXPECT_EQ(arrays(memory).size(), 6u);
  expect_contents(memory, filled(memory));
}

TEST_P(KvMemoryTest, CopiesSlotsInEveryLayerAndNothingElse) {
  KvMemory memory(backend_, {.n_layers = 3, .n_kv_heads = 3, .head_dim = 2, .type = GetParam()},
                  10);
  const auto bytes = static_cast<std::ptrdiff_t>(memory.shape().key_bytes());
  for (const auto& [from, to, count] : std::vector<std::array<int, 3>>{
           {0, 7, 3}, {5, 2, 3}, {9, 0, 1}, {4, 9, 0}, {0, 5, 5}, {10, 3, 0}, {3, 3, 0}}) {
    std::vector<std::vector<std::byte>> expected = filled(memory);
    for (std::vector<std::byte>& array : expected) {
      std::copy_n(array.begin() + from * bytes, count * bytes, array.begin() + to * bytes);
    }
    memory.copy(from, to, count);
    expect_contents(memory, expected);
  }
}

// One move after the other: what one reads, a later one may overwrite.
TEST_P(KvMemoryTest, MovesSlotsInEveryLayerAndNothingElse) {
  KvMemory memory(backend_, {.n_layers = 2, .n_kv_heads = 3, .head_dim = 2, .type = GetParam()},
                  10);
  const auto bytes = static_cast<std::ptrdiff_t>(memory.shape().key_bytes());
  const std::vector<SlotMove> moves = {{4, 2}, {7, 4}, {2, 9}, {8, 7}};
  std::vector<std::vector<std::byte>> expected = filled(memory);
  for (std::vector<std::byte>& array : expected) {
    for (const auto [from, to] : moves) {
      std::copy_n(array.begin() + from * bytes, bytes, array.begin() + to * bytes);
    }
  }
  memory.move(moves);
  expect_contents(memory, expected);
}

TEST_P(KvMemoryTest, ReadsASlotAsFloat32) {
  const KvMemory memory(backend_,
                        {.n_layers = 2, .n_kv_heads = 1, .head_dim = 2, .type = GetParam()}, 3);
  const float third = 1.0f / 3, about = GetParam() == KvType::kF32 ? third : 0x1.56p-2f;
  const std::vector<float> key = {1, third}, value = {-third, 2};
  with_rows(memory.layer(1), [&](auto rows) {
    for (const int i : {0, 1}) {
      store(key[static_cast<std::size_t>(i)], rows.keys[2 * 2 + i]);
      store(value[static_cast<std::size_t>(i)], rows.values[2 * 2 + i]);
    }
  });
  EXPECT_EQ(memory.read(1, 2).key, (std::vector<float>{1, about}));
  EXPECT_EQ(memory.read(1, 2).value, (std::vector<float>{-about, 2}));
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
  EXPECT_DEATH(KvMemory(backend, {1, 1, 3, KvType::kBF16}, 1), "in pairs, not in heads of 3");
}

TEST(KvMemorySizesTest, WithoutMemoryItSaysHowMuchIsNeeded) {
  MemoryBackend backend(12'000'000);
  const KvShape target{.n_layers = 6, .n_kv_heads = 1, .head_dim = 128};
  EXPECT_THAT(error_message([&] { KvMemory(backend, target, 2048); }),
              StrEq("the KV cache needs 12.6 MB for 2048 tokens (6 layers of 1 x 128 keys and "
                    "values), and there is not enough memory; reduce --max-context or --pages"));
  EXPECT_EQ(backend.live_blocks(), 0u) << "the layers that had been allocated";
}

TEST(KvMemorySizesTest, SizesAreReadable) {
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
  EXPECT_THAT(needs({28, 8, 128, KvType::kBF16}, 131'072),
              ::testing::HasSubstr("needs 15.0 GB for"));
}

TEST(KvMemorySizesTest, SizesBeyondAllIntegersAreRefused) {
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
