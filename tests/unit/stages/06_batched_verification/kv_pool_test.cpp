// A cache's pages as a scheduler counts them: paged ones, the regions of a contiguous cache, and
// none at all.
#include "stages/06_batched_verification/kv_pool.h"

#include <limits>
#include <numeric>

#include "kernels/cpu/cpu_backend.h"
#include "stages/02_contiguous_kv_cache/contiguous_kv_cache.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

constexpr KvShape kShape = {1, 1, 1};

// `count` tokens from `first` on.
std::vector<TokenId> numbers(int first, int count) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// Five pages of two tokens.
class PagedPoolTest : public ::testing::Test {
 protected:
  SequenceId create(std::span<const TokenId> tokens = {}) {
    return pool_.create(tokens, [this] { return cache_.create(); });
  }
  void release(SequenceId sequence) {
    cache_.release(sequence);
    pool_.count_release();
  }
  void extend(SequenceId sequence, int tokens) {
    const Extension extension{sequence, tokens};
    cache_.extend(std::span(&extension, 1));
  }
  // What is left of a request: its prompt's full pages.
  void keep(const std::vector<TokenId>& prompt) {
    const SequenceId sequence = create(prompt);
    extend(sequence, static_cast<int>(prompt.size()) - cache_.length(sequence));
    pool_.keep_prefix(sequence, prompt);
    release(sequence);
  }

  std::unique_ptr<Backend> backend_ = make_plain_backend();
  PagedKvCache cache_{*backend_, kShape, 5, 2};
  KvPool pool_{&cache_, true, false};
};

TEST_F(PagedPoolTest, ASequenceTakesPagesAsItGrows) {
  EXPECT_EQ(pool_.n_pages(), 5);
  EXPECT_EQ(pool_.pages_of(KvPool::kNone), 0);
  EXPECT_EQ(pool_.pages_of(0), 0);
  EXPECT_EQ(pool_.pages_of(1), 1);
  EXPECT_EQ(pool_.pages_of(2), 1);
  EXPECT_EQ(pool_.pages_of(3), 2);
  EXPECT_EQ(pool_.growth(KvPool::kNone, 3), 2);
  EXPECT_EQ(pool_.growth(3, 4), 0);
  EXPECT_EQ(pool_.growth(3, 9), 3);
  const SequenceId sequence = create();
  EXPECT_EQ(pool_.n_used(), 0);
  extend(sequence, 3);
  EXPECT_EQ(pool_.n_used(), 2);
  EXPECT_EQ(pool_.n_free(), 3);
  EXPECT_EQ(pool_.n_sequences(), 1);
  pool_.note_peak();
  release(sequence);
  EXPECT_EQ(pool_.n_used(), 0);
  EXPECT_EQ(pool_.n_sequences(), 0);
  pool_.note_peak();
  EXPECT_EQ(pool_.peak_used(), 2);
}

TEST_F(PagedPoolTest, WhatThePrefixCacheKeepsIsUsed) {
  keep(numbers(0, 5));
  EXPECT_EQ(pool_.n_used(), 2) << "two pages are full without the last token";
  EXPECT_EQ(cache_.length(create(numbers(0, 5))), 4) << "a sequence begins with them";
  pool_.clear_prefixes();
  EXPECT_EQ(pool_.n_used(), 2) << "still the sequence's";
}

TEST_F(PagedPoolTest, RoomIsMadeAtTheCostOfPrefixesAndOfNoMoreThanNeedBe) {
  keep(numbers(0, 5));
  keep(numbers(100, 3));
  ASSERT_EQ(pool_.n_free(), 2);
  EXPECT_TRUE(pool_.make_room(0));
  EXPECT_TRUE(pool_.make_room(2)) << "it is there";
  EXPECT_EQ(pool_.prefixes()->pages(), 3);
  EXPECT_TRUE(pool_.make_room(3));
  EXPECT_EQ(pool_.n_free(), 3);
  EXPECT_EQ(pool_.prefixes()->match_length(numbers(0, 5)), 2) << "the older one's end has gone";
  EXPECT_EQ(pool_.prefixes()->match_length(numbers(100, 3)), 2);
  EXPECT_TRUE(pool_.make_room(5));
  EXPECT_EQ(pool_.prefixes()->pages(), 0);
  EXPECT_FALSE(pool_.make_room(6));
}

TEST_F(PagedPoolTest, PrefixesThatDoNotSufficeAreLeftAlone) {
  keep(numbers(0, 5));
  const SequenceId other = create();
  extend(other, 1);
  ASSERT_EQ(pool_.n_free(), 2);
  for (int pages = 5; pages < 8; pages++) EXPECT_FALSE(pool_.make_room(pages));
  EXPECT_EQ(pool_.prefixes()->match_length(numbers(0, 5)), 4);
  EXPECT_EQ(pool_.prefixes()->stats().pages_evicted, 0);
  const SequenceId user = create(numbers(0, 3));  // of the first page
  EXPECT_FALSE(pool_.make_room(4)) << "a page in use cannot be had";
  EXPECT_EQ(pool_.prefixes()->stats().pages_evicted, 0);
  EXPECT_TRUE(pool_.make_room(3));
  EXPECT_EQ(pool_.prefixes()->stats().pages_evicted, 1);
  release(user);
  EXPECT_TRUE(pool_.make_room(4));
}

TEST_F(PagedPoolTest, WithoutAPrefixCacheNothingIsKept) {
  KvPool pool(&cache_, false, false);
  EXPECT_EQ(pool.prefixes(), nullptr);
  const SequenceId sequence = pool.create(numbers(0, 5), [this] { return cache_.create(); });
  EXPECT_EQ(pool.n_sequences(), 1);
  extend(sequence, 5);
  pool.keep_prefix(sequence, numbers(0, 5));
  EXPECT_FALSE(pool.make_room(3));
  cache_.release(sequence);
  pool.count_release();
  EXPECT_TRUE(pool.make_room(5));
  pool.clear_prefixes();
}

// A page is a region: a sequence has one from its beginning, and never needs another.
TEST(ContiguousPoolTest, ASequenceTakesOneRegionForItsLife) {
  const auto backend = make_plain_backend();
  ContiguousKvCache cache(*backend, kShape, 3, 8);
  KvPool pool(&cache, true, true);
  EXPECT_EQ(pool.n_pages(), 3);
  EXPECT_EQ(pool.paged(), nullptr);
  EXPECT_EQ(pool.prefixes(), nullptr) << "regions are not shared, whatever is asked for";
  EXPECT_EQ(pool.growth(KvPool::kNone, 0), 1);
  EXPECT_EQ(pool.growth(0, 8), 0);
  std::vector<SequenceId> sequences;
  for (int n = 0; n < 3; n++) {
    EXPECT_EQ(pool.n_used(), n);
    EXPECT_EQ(pool.n_free(), 3 - n);
    EXPECT_TRUE(pool.make_room(1));
    EXPECT_FALSE(pool.make_room(4 - n));
    sequences.push_back(pool.create(numbers(0, 5), [&] { return cache.create(); }));
    pool.keep_prefix(sequences.back(), numbers(0, 5));
  }
  EXPECT_FALSE(pool.make_room(1));
  EXPECT_TRUE(pool.make_room(0)) << "to grow, nothing more is needed";
  pool.note_peak();
  for (int n = 3; n > 0; n--) {
    EXPECT_EQ(pool.n_used(), n);
    cache.release(sequences[static_cast<std::size_t>(n - 1)]);
    pool.count_release();
    EXPECT_TRUE(pool.make_room(4 - n));
  }
  EXPECT_EQ(pool.n_used(), 0);
  EXPECT_EQ(pool.peak_used(), 3);
}

TEST(ContiguousPoolTest, WhatCouldNotBeMadeIsNotCounted) {
  const auto backend = make_plain_backend();
  ContiguousKvCache cache(*backend, kShape, 1, 8);
  KvPool pool(&cache, false, false);
  const auto create = [&] { return pool.create({}, [&] { return cache.create(); }); };
  static_cast<void>(create());
  EXPECT_THROW(static_cast<void>(create()), CacheFull);
  EXPECT_EQ(pool.n_used(), 1);
}

// A drafter that caches nothing never wants for room.
TEST(NoPoolTest, ThereIsAlwaysRoom) {
  KvPool pool(nullptr, true, true);
  EXPECT_EQ(pool.cache(), nullptr);
  EXPECT_EQ(pool.prefixes(), nullptr);
  EXPECT_EQ(pool.growth(KvPool::kNone, 1000), 0);
  EXPECT_EQ(pool.create(numbers(0, 5), [] { return SequenceId{7}; }), 7);
  EXPECT_EQ(pool.n_used(), 0);
  EXPECT_TRUE(pool.make_room(std::numeric_limits<int>::max()));
  pool.count_release();
  EXPECT_EQ(pool.n_sequences(), 0);
}

}  // namespace
}  // namespace specdec
