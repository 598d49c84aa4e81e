#include "stages/06_batched_verification/prefix_cache.h"

#include <array>
#include <numeric>

#include "kernels/cpu/cpu_backend.h"
#include "tests/paged_table_model.h"
#include "tests/test_support.h"
#include "tests/unit/common/memory_backend.h"

namespace specdec {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

using Tokens = std::vector<TokenId>;

std::uint64_t one_hash(std::uint64_t, std::span<const TokenId>) { return 7; }

// `count` tokens from `first` on: 5, 6, 7, ...
Tokens counted_from(int first, int count) {
  Tokens tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A pool, and a model that writes tokens into it and reads them back.
struct Pool {
  explicit Pool(int n_pages, int page_size, PrefixHash hash = fnv_prefix_hash)
      : cache(*backend, {.n_layers = 1, .n_kv_heads = 1, .head_dim = 1}, n_pages, page_size),
        model(cache, 1000, [](std::span<const TokenId>) { return std::span<const float>(); }),
        prefixes(cache, true, hash) {}

  // Appends what is left of `tokens` but for the last `uncomputed`.
  void compute(SequenceId id, const Tokens& tokens, int uncomputed = 1) {
    auto rest = uncached(model, id, tokens);
    rest = rest.first(rest.size() - static_cast<std::size_t>(uncomputed));
    if (!rest.empty()) model.forward(Segment{id, rest, 0}, DeviceRows{});
  }
  // A request as far as its prefill, taken in.
  SequenceId prefill(const Tokens& prompt) {
    const SequenceId id = prefixes.create(prompt);
    compute(id, prompt);
    prefixes.add(id, prompt);
    return id;
  }
  void serve(const Tokens& prompt) { cache.release(prefill(prompt)); }
  int n_used() const { return cache.allocator().n_used(); }

  std::unique_ptr<Backend> backend = make_plain_backend();
  PagedKvCache cache;
  PagedTableModel model;
  PrefixCache prefixes;
};

class PrefixCacheTest : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(PageSizes, PrefixCacheTest, ::testing::Values(1, 3, 16),
                         [](const auto& size) { return "Size" + std::to_string(size.param); });

TEST_P(PrefixCacheTest, RequestsThatBeginAlikeShareFullPages) {
  const int size = GetParam();
  Pool pool(20, size);
  const Tokens system = counted_from(0, 3 * size), one = system + counted_from(100, size + 1),
               other = system + counted_from(200, size + 1);
  const SequenceId a = pool.prefill(one);
  EXPECT_EQ(pool.prefixes.pages(), 4);
  const SequenceId b = pool.prefixes.create(other);
  EXPECT_EQ(pool.cache.length(b), 3 * size);
  EXPECT_THAT(pool.cache.pages(b), ElementsAreArray(pool.cache.pages(a).first(3)));
  EXPECT_EQ(pool.cache.allocator().owners(pool.cache.pages(b)[0]), 3) << "a, b and the cache";
  pool.compute(b, other, 0);
  EXPECT_EQ(pool.model.text(b), other);
  EXPECT_EQ(pool.model.text(a) + Tokens{one.back()}, one) << "still";
  EXPECT_EQ(pool.cache.bytes_copied(), 0u);
  pool.cache.release(a);
  pool.cache.release(b);
  EXPECT_EQ(pool.n_used(), 4) << "the cache's";
  pool.prefixes.clear();
  EXPECT_EQ(pool.n_used(), 0);
  EXPECT_EQ(pool.prefixes.pages(), 0);
  EXPECT_EQ(pool.prefixes.match_length(one), 0);
}

TEST_P(PrefixCacheTest, AtLeastTheLastTokenStaysToBeComputed) {
  const int size = GetParam();
  Pool pool(8, size);
  const Tokens prompt = counted_from(0, 4 * size);
  pool.serve(prompt + Tokens{999});
  EXPECT_EQ(pool.prefixes.pages(), 4);
  for (int n = 0; n <= 4 * size; n++) {
    const Tokens beginning(prompt.begin(), prompt.begin() + n);
    const int expected = n == 0 ? 0 : (n - 1) / size * size;
    EXPECT_EQ(pool.prefixes.match_length(beginning), expected) << n << " tokens";
    const SequenceId id = pool.prefixes.create(beginning);
    EXPECT_EQ(pool.cache.length(id), expected) << n << " tokens";
    pool.cache.release(id);
  }
  const SequenceId id = pool.prefixes.create(prompt);
  pool.compute(id, prompt, 0);
  EXPECT_EQ(pool.cache.bytes_copied(), 0u) << "nobody writes into a shared page";
}

TEST_P(PrefixCacheTest, OnlyFullAndComputedPagesOfThePromptAreTakenIn) {
  const int size = GetParam();
  Pool pool(20, size);
  const Tokens prompt = counted_from(0, 3 * size + 1),
               speculated = prompt + counted_from(500, 3 * size);
  const SequenceId id = pool.prefixes.create(prompt);
  pool.prefixes.add(id, prompt);
  EXPECT_EQ(pool.prefixes.pages(), 0) << "nothing is computed";
  pool.compute(id, prompt, size + 2);  // not quite two pages
  pool.prefixes.add(id, prompt);
  EXPECT_EQ(pool.prefixes.pages(), 1);
  EXPECT_EQ(pool.prefixes.match_length(prompt), size);
  pool.compute(id, speculated, 0);
  pool.prefixes.add(id, prompt);
  EXPECT_EQ(pool.prefixes.pages(), 3);
  EXPECT_EQ(pool.prefixes.match_length(speculated), 3 * size) << "nothing that was speculated";
  EXPECT_EQ(pool.prefixes.stats().pages_added, 3);
  pool.prefixes.add(id, Tokens(prompt.begin(), prompt.end() - 1));
  pool.prefixes.add(id, {});
  EXPECT_EQ(pool.prefixes.stats().pages_added, 3) << "all known";
  pool.cache.truncate(id, 3 * size + 1);
  EXPECT_EQ(pool.model.text(id), prompt);
}

TEST_P(PrefixCacheTest, TheLastPageOfAPromptIsTakenInOnlyWithATokenBehindIt) {
  const int size = GetParam();
  Pool pool(20, size);
  const Tokens prompt = counted_from(0, 2 * size);
  const SequenceId id = pool.prefixes.create(prompt);
  pool.compute(id, prompt, 0);
  pool.prefixes.add(id, prompt);
  EXPECT_EQ(pool.prefixes.pages(), 1);
}

TEST(PrefixCacheTest, APromptThatDiffersIsFoundUpToThere) {
  Pool pool(20, 4);
  pool.serve(counted_from(0, 17));
  Tokens other = counted_from(0, 17);
  other[9] = 999;
  EXPECT_EQ(pool.prefixes.match_length(other), 8);
  other[4] = 999;
  EXPECT_EQ(pool.prefixes.match_length(other), 4);
  other[0] = 999;
  EXPECT_EQ(pool.prefixes.match_length(other), 0);
  EXPECT_EQ(pool.prefixes.match_length(counted_from(4, 17)), 0) << "cached, but not as a beginning";
  EXPECT_EQ(pool.prefixes.match_length(counted_from(0, 17)), 16);
}

TEST(PrefixCacheTest, WhatBothComputedIsTakenInOnceAndNothingBehindACopy) {
  Pool pool(20, 4);
  const Tokens prompt = counted_from(0, 13);
  const SequenceId a = pool.prefixes.create(prompt), b = pool.prefixes.create(prompt);
  pool.compute(a, counted_from(0, 9), 1);
  pool.prefixes.add(a, prompt);  // two pages
  pool.compute(b, prompt);
  pool.prefixes.add(b, prompt);  // not the third, which stands on b's own copies
  EXPECT_EQ(pool.prefixes.pages(), 2);
  const SequenceId c = pool.prefixes.create(prompt);
  EXPECT_THAT(pool.cache.pages(c), ElementsAre(pool.cache.pages(a)[0], pool.cache.pages(a)[1]));
  pool.compute(c, prompt);
  pool.prefixes.add(c, prompt);  // c stands on the cached ones
  EXPECT_EQ(pool.prefixes.pages(), 3);
  pool.cache.release(a);
  pool.cache.release(c);
  EXPECT_EQ(pool.prefixes.evictable(), 3) << "b uses none of them";
  for (int i = 0; i < 3; i++) EXPECT_TRUE(pool.prefixes.evict());
}

TEST(PrefixCacheTest, TheLeastRecentlyUsedPromptGoesFirstFromItsEnd) {
  Pool pool(20, 4);
  const Tokens a = counted_from(0, 9), b = counted_from(100, 9),
               c = counted_from(0, 4) + counted_from(200, 5);
  pool.serve(a);
  pool.serve(b);
  pool.serve(c);  // shares a page with a, which is thereby as young
  const auto matches = [&] {
    return std::array{pool.prefixes.match_length(a), pool.prefixes.match_length(b),
                      pool.prefixes.match_length(c)};
  };
  EXPECT_EQ(pool.prefixes.pages(), 5);
  EXPECT_EQ(pool.prefixes.evictable(), 5);
  EXPECT_TRUE(pool.prefixes.evict());
  EXPECT_THAT(matches(), ElementsAre(4, 8, 8));
  EXPECT_TRUE(pool.prefixes.evict());
  EXPECT_THAT(matches(), ElementsAre(4, 4, 8)) << "asking does not count as using";
  pool.cache.release(pool.prefixes.create(b));
  EXPECT_TRUE(pool.prefixes.evict());
  EXPECT_THAT(matches(), ElementsAre(4, 4, 4));
  EXPECT_TRUE(pool.prefixes.evict());
  EXPECT_THAT(matches(), ElementsAre(0, 4, 0));
  EXPECT_TRUE(pool.prefixes.evict());
  EXPECT_FALSE(pool.prefixes.evict());
  EXPECT_EQ(pool.n_used(), 0);
  EXPECT_EQ(pool.prefixes.stats().pages_evicted, 5);
}

TEST(PrefixCacheTest, AddingAgainCountsAsUsing) {
  Pool pool(20, 4);
  const Tokens a = counted_from(0, 5), b = counted_from(100, 5);
  const SequenceId id = pool.prefill(a);
  pool.serve(b);
  pool.prefixes.add(id, a);
  pool.cache.release(id);
  EXPECT_TRUE(pool.prefixes.evict());
  EXPECT_EQ(pool.prefixes.match_length(a), 4);
  EXPECT_EQ(pool.prefixes.match_length(b), 0);
}

TEST(PrefixCacheTest, PagesInUseAreNotEvicted) {
  Pool pool(20, 4);
  const Tokens a = counted_from(0, 13), b = counted_from(100, 9);
  const SequenceId id = pool.prefill(a);
  pool.serve(b);
  const SequenceId half = pool.prefixes.create(counted_from(0, 9));
  EXPECT_EQ(pool.prefixes.evictable(), 2);
  EXPECT_TRUE(pool.prefixes.evict());
  EXPECT_TRUE(pool.prefixes.evict());
  EXPECT_FALSE(pool.prefixes.evict());
  EXPECT_EQ(pool.prefixes.match_length(b), 0) << "though it was used later than a";
  pool.cache.release(id);
  EXPECT_EQ(pool.prefixes.evictable(), 1);
  EXPECT_TRUE(pool.prefixes.evict()) << "the third page";
  EXPECT_FALSE(pool.prefixes.evict());
  pool.prefixes.clear();
  EXPECT_EQ(pool.model.text(half), counted_from(0, 8)) << "a sequence keeps what it uses";
  EXPECT_EQ(pool.n_used(), 2);
  pool.cache.release(half);
  EXPECT_EQ(pool.n_used(), 0);
}

TEST(PrefixCacheTest, StatisticsAreExact) {
  Pool pool(20, 4);
  pool.serve(counted_from(0, 10));
  pool.serve(counted_from(0, 14));
  pool.serve(counted_from(100, 3));
  pool.cache.release(pool.prefixes.create({}));
  pool.cache.release(pool.prefixes.create(counted_from(0, 14)));
  static_cast<void>(pool.prefixes.match_length(counted_from(0, 14)));
  pool.prefixes.evict();
  const PrefixCacheStats& stats = pool.prefixes.stats();
  EXPECT_EQ(stats.lookups, 5);
  EXPECT_EQ(stats.hits, 2);
  EXPECT_EQ(stats.tokens_asked, 10 + 14 + 3 + 0 + 14);
  EXPECT_EQ(stats.tokens_found, 8 + 12);
  EXPECT_EQ(stats.pages_added, 3);
  EXPECT_EQ(stats.pages_evicted, 1);
  pool.prefixes.clear();
  EXPECT_EQ(stats.pages_evicted, 1);
}

TEST(PrefixCacheTest, EqualHashesAreToldApart) {
  Pool pool(20, 4, one_hash);
  const Tokens x = counted_from(0, 4), y = counted_from(100, 4), z = counted_from(200, 4),
               end = {999};
  pool.serve(x + y + end);
  EXPECT_EQ(pool.prefixes.match_length(y + end), 0) << "y is cached, but behind x";
  EXPECT_EQ(pool.prefixes.match_length(x + x + end), 4);
  EXPECT_EQ(pool.prefixes.match_length(z + y + end), 0);
  pool.serve(z + y + end);
  EXPECT_EQ(pool.prefixes.pages(), 4) << "y behind z is another page than y behind x";
  const SequenceId a = pool.prefixes.create(x + y + end), b = pool.prefixes.create(z + y + end);
  EXPECT_EQ(pool.model.text(a), x + y);
  EXPECT_EQ(pool.model.text(b), z + y);
  pool.cache.release(a);
  pool.cache.release(b);
  while (pool.prefixes.evict()) {
  }
  EXPECT_EQ(pool.n_used(), 0);
}

TEST(PrefixCacheTest, TheHashDependsOnEverythingBefore) {
  const Tokens page = counted_from(0, 4), swapped = {1, 0, 2, 3};
  EXPECT_NE(fnv_prefix_hash(0, page), fnv_prefix_hash(1, page));
  EXPECT_NE(fnv_prefix_hash(0, page), fnv_prefix_hash(0, swapped));
}

TEST(PrefixCacheTest, APageIsHashedAfterThePageBefore) {
  static std::vector<std::uint64_t> befores;  // a function pointer carries nothing
  Pool pool(4, 4, [](std::uint64_t before, std::span<const TokenId> page) {
    befores.push_back(before);
    return before * 1000 + static_cast<std::uint64_t>(page.front()) + 1;
  });
  pool.serve(counted_from(0, 13));
  befores.clear();
  EXPECT_EQ(pool.prefixes.match_length(counted_from(0, 13)), 12);
  EXPECT_THAT(befores, ElementsAre(0, 1, 1005));
}

TEST(PrefixCacheTest, TheDestructorGivesEverythingBack) {
  MemoryBackend backend;
  PagedKvCache cache(backend, {.n_layers = 1, .n_kv_heads = 1, .head_dim = 1}, 4, 2);
  const SequenceId id = cache.create();
  const Extension extension{id, 5};
  cache.extend({&extension, 1});
  {
    PrefixCache prefixes(cache);
    prefixes.add(id, counted_from(0, 5));
    cache.release(id);
    EXPECT_EQ(cache.allocator().n_used(), 2);
  }
  EXPECT_EQ(cache.allocator().n_used(), 0);
}

// Two cached pages of two tokens, in two layers of width 2.
class PrefixCacheDeathTest : public ::testing::Test {
 protected:
  PrefixCacheDeathTest() : cache_(backend_, {.n_layers = 2, .n_kv_heads = 1, .head_dim = 2}, 4, 2) {
    id_ = cache_.create();
    const Extension extension{id_, 5};
    cache_.extend({&extension, 1});
  }
  MemoryBackend backend_;
  PagedKvCache cache_;
  SequenceId id_ = 0;
};

TEST_F(PrefixCacheDeathTest, APageThatWasOverwrittenIsNoticed) {
  PrefixCache prefixes(cache_, true);
  prefixes.add(id_, counted_from(0, 5));
  cache_.release(prefixes.create(counted_from(0, 5)));
  cache_.memory().layer(1).rows<float>().values[2 * 2 * 2] = 1;  // of page 2, in no prompt
  cache_.release(prefixes.create(counted_from(0, 5)));
  float& key = cache_.memory().layer(0).rows<float>().keys[2 * 2 - 1];  // the last of page 0
  float& value = cache_.memory().layer(1).rows<float>().values[2 * 2];  // the first of page 1
  const float before = key;
  key = 5;
  EXPECT_DEATH(prefixes.create(counted_from(0, 5)), "page 0 to hold in layer 0 what it held");
  key = before;
  value = 5;
  EXPECT_DEATH(prefixes.create(counted_from(0, 5)), "page 1 to hold in layer 1 what it held");
  cache_.release(prefixes.create(counted_from(0, 3)));  // does not find page 1
}

TEST_F(PrefixCacheDeathTest, WithoutVerifyNothingIsRead) {
  PrefixCache prefixes(cache_, false);
  prefixes.add(id_, counted_from(0, 5));
  cache_.memory().layer(0).rows<float>().keys[0] = 5;
  EXPECT_EQ(cache_.length(prefixes.create(counted_from(0, 5))), 4);
}

TEST_F(PrefixCacheDeathTest, MistakesAbort) {
  PrefixCache prefixes(cache_);
  prefixes.add(id_, counted_from(0, 5));
  EXPECT_DEATH(prefixes.add(id_, counted_from(100, 5)),
               "page 0 of a prompt not to be cached as one of");
  EXPECT_DEATH(prefixes.add(id_ + 1, counted_from(0, 5)), "sequence 1 to exist");
}

}  // namespace
}  // namespace specdec
