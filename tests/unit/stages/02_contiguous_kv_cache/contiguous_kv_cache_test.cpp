#include "stages/02_contiguous_kv_cache/contiguous_kv_cache.h"

#include <set>

#include "tests/test_support.h"
#include "tests/unit/allocation_counter.h"
#include "tests/unit/common/memory_backend.h"
#include "tests/unit/stages/02_contiguous_kv_cache/kv_cache_driver.h"

namespace specdec {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StrEq;

constexpr KvShape kShape{.n_layers = 2, .n_kv_heads = 1, .head_dim = 2};
constexpr std::size_t kTokenBytes = 2 * 2 * 2 * 4;

class ContiguousKvCacheTest : public ::testing::Test {
 protected:
  static void extend(KvCache& cache, std::vector<Extension> extensions) {
    cache.extend(extensions);
  }
  MemoryBackend backend_;
};

TEST_F(ContiguousKvCacheTest, ASequenceOwnsOneRegion) {
  ContiguousKvCache cache(backend_, kShape, 3, 10);
  EXPECT_EQ(cache.memory().slots(), 30);
  EXPECT_EQ(cache.page_size(), 10);
  EXPECT_EQ(cache.create(), 0);
  EXPECT_EQ(cache.create(), 1);
  EXPECT_THAT(cache.pages(1), IsEmpty());
  extend(cache, {{1, 7}, {0, 1}});
  EXPECT_EQ(cache.length(0), 1);
  EXPECT_EQ(cache.length(1), 7);
  EXPECT_THAT(cache.pages(1), ElementsAre(1));
  EXPECT_EQ(cache.slot(0, 0), 0);
  EXPECT_EQ(cache.slot(1, 6), 16);
  cache.truncate(1, 0);
  EXPECT_THAT(cache.pages(1), IsEmpty());
  extend(cache, {{1, 10}});
  EXPECT_EQ(cache.slot(1, 9), 19);
}

TEST_F(ContiguousKvCacheTest, ForkCopiesEverything) {
  ContiguousKvCache cache(backend_, kShape, 2, 10);
  const SequenceId a = cache.create();
  extend(cache, {{a, 7}});
  EXPECT_EQ(cache.bytes_copied(), 0u);
  const SequenceId b = cache.fork(a);
  EXPECT_EQ(cache.length(b), 7);
  EXPECT_EQ(cache.bytes_copied(), 7 * kTokenBytes);
  cache.release(a);
  EXPECT_EQ(cache.fork(b), a) << "the region of a released sequence is used again";
  EXPECT_EQ(cache.bytes_copied(), 14 * kTokenBytes);
}

TEST_F(ContiguousKvCacheTest, FullCachesSayHowFull) {
  ContiguousKvCache cache(backend_, kShape, 2, 10);
  const SequenceId a = cache.create();
  const SequenceId b = cache.create();
  extend(cache, {{b, 8}});
  EXPECT_THAT(error_message([&] { cache.create(); }),
              StrEq("the KV cache is full: it has room for 2 sequences, and all are in use; "
                    "release one first"));
  EXPECT_THROW(cache.fork(a), CacheFull);
  EXPECT_THAT(error_message([&] {
                extend(cache, {{a, 4}, {b, 3}});
              }),
              StrEq("the KV cache is full: sequence 1 has 8 tokens and needs 3 more, but there is "
                    "room for 10 in all; raise --max-context"));
  EXPECT_EQ(cache.length(a), 0) << "all or none";
  EXPECT_THROW(extend(cache, {{a, std::numeric_limits<int>::max()}}), CacheFull);
  EXPECT_THROW(extend(cache, {{b, std::numeric_limits<int>::max()}}), CacheFull);
  extend(cache, {{a, 10}, {b, 2}});
  EXPECT_EQ(cache.length(b), 10);
}

TEST_F(ContiguousKvCacheTest, MoreThanThereCanBeIsRefused) {
  constexpr int kHuge = std::numeric_limits<int>::max();
  EXPECT_ERROR(ContiguousKvCache(backend_, kShape, kHuge, kHuge),
               "more than any cache here can hold");
  EXPECT_ERROR(ContiguousKvCache(backend_, kShape, 2, 100'000'000),
               "needs 6.4 GB for 200000000 tokens");
}

using ContiguousKvCacheDeathTest = ContiguousKvCacheTest;

TEST_F(ContiguousKvCacheDeathTest, MistakesAbort) {
  ContiguousKvCache cache(backend_, kShape, 2, 10);
  const SequenceId a = cache.create();
  extend(cache, {{a, 3}});
  EXPECT_DEATH(cache.truncate(a, 4), "to keep 0 to 3 tokens, not 4");
  EXPECT_DEATH(cache.truncate(a, -1), "to keep 0 to 3 tokens, not -1");
  EXPECT_DEATH(extend(cache, {{a, 1}, {a, 1}}), "to extend sequence 0 once in a call");
  EXPECT_DEATH(cache.length(1), "sequence 1 to exist");
  EXPECT_DEATH(cache.length(2), "sequence 2 to exist");
  EXPECT_DEATH(cache.length(-1), "sequence -1 to exist");
  cache.release(a);
  EXPECT_DEATH(cache.release(a), "sequence 0 to exist");
  EXPECT_DEATH(cache.pages(a), "sequence 0 to exist");
}

TEST_F(ContiguousKvCacheTest, TheDecodeLoopAllocatesNothing) {
  ContiguousKvCache cache(backend_, kShape, 2, 100);
  const SequenceId a = cache.create(), b = cache.create();
  const std::array<Extension, 2> round = {{{a, 6}, {b, 3}}};
  const std::size_t before = allocations();
  for (int i = 0; i < 20; i++) {
    if (!cache.can_extend(round)) break;
    cache.extend(round);
    cache.truncate(a, cache.length(a) - i % 5);
  }
  EXPECT_EQ(allocations(), before);
  EXPECT_GT(cache.length(a), 50);
}

TEST_F(ContiguousKvCacheTest, AgreesWithAListOfTokensUnderRandomCalls) {
  constexpr int kSequences = 4, kLength = 23;
  ContiguousKvCache cache(backend_, kShape, kSequences, kLength);
  using Model = KvCacheDriver::Model;
  KvCacheDriver::Hooks hooks;
  hooks.can_create = [](const Model& model) { return model.size() < kSequences; };
  hooks.has_room = [](const Model& model, const std::vector<Extension>& extensions) {
    return std::ranges::all_of(extensions, [&](const Extension& e) {
      return static_cast<int>(model.at(e.sequence).size()) + e.tokens <= kLength;
    });
  };
  hooks.check_books = [](const Model&) {};
  KvCacheDriver driver(cache, hooks, 1);
  drive(driver, 100'000);
  EXPECT_GT(driver.failed_calls(), 1000);
}

}  // namespace
}  // namespace specdec
