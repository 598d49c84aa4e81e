#include "stages/03_paged_kv_cache/paged_kv_cache.h"

#include "tests/test_support.h"
#include "tests/unit/allocation_counter.h"
#include "tests/unit/common/memory_backend.h"

namespace specdec {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StrEq;

constexpr KvShape kShape{.n_layers = 2, .n_kv_heads = 1, .head_dim = 2};
constexpr std::size_t kTokenBytes = 2 * 2 * 2 * 4;

// Small worked examples; pages of 4 tokens unless a case says otherwise. Random calls against a
// model: paged_kv_cache_random_test.cpp.
class PagedKvCacheTest : public ::testing::Test {
 protected:
  static void extend(KvCache& cache, std::vector<Extension> extensions) {
    cache.extend(extensions);
  }
  static bool can_extend(const KvCache& cache, std::vector<Extension> extensions) {
    return cache.can_extend(extensions);
  }
  // A new sequence of so many tokens.
  static SequenceId sequence(KvCache& cache, int length) {
    const SequenceId id = cache.create();
    extend(cache, {{id, length}});
    return id;
  }
  static void write(const KvCache& cache, SequenceId id, int position, float value) {
    cache.memory().layer(0).rows<float>().keys[cache.slot(id, position) * kShape.width()] = value;
  }
  static float read(const KvCache& cache, SequenceId id, int position) {
    return cache.memory().layer(0).rows<float>().keys[cache.slot(id, position) * kShape.width()];
  }
  MemoryBackend backend_;
};

TEST_F(PagedKvCacheTest, SequencesTakePagesAsTheyGrow) {
  PagedKvCache cache(backend_, kShape, 6, 4);
  EXPECT_EQ(cache.memory().slots(), 24);
  const SequenceId a = cache.create(), b = cache.create();
  EXPECT_THAT(cache.pages(a), IsEmpty());
  extend(cache, {{a, 5}});
  EXPECT_THAT(cache.pages(a), ElementsAre(0, 1));
  extend(cache, {{b, 1}, {a, 3}});
  EXPECT_THAT(cache.pages(a), ElementsAre(0, 1)) << "filled up";
  EXPECT_THAT(cache.pages(b), ElementsAre(2));
  extend(cache, {{a, 1}});
  EXPECT_THAT(cache.pages(a), ElementsAre(0, 1, 3));
  EXPECT_EQ(cache.slot(a, 8), 12);
  EXPECT_EQ(cache.slot(b, 0), 8);
  EXPECT_EQ(cache.length(a), 9);
  EXPECT_EQ(cache.allocator().n_used(), 4);
  EXPECT_EQ(cache.bytes_copied(), 0u);
}

TEST_F(PagedKvCacheTest, TruncateFreesWholePagesAndKeepsAPartialOne) {
  PagedKvCache cache(backend_, kShape, 6, 4);
  const SequenceId a = sequence(cache, 14);
  EXPECT_THAT(cache.pages(a), ElementsAre(0, 1, 2, 3));
  cache.truncate(a, 13);
  EXPECT_EQ(cache.allocator().n_free(), 2) << "a last page that is partly needed stays";
  cache.truncate(a, 12);
  EXPECT_THAT(cache.pages(a), ElementsAre(0, 1, 2)) << "a freed page leaves the table, too";
  cache.truncate(a, 5);
  EXPECT_THAT(cache.pages(a), ElementsAre(0, 1));
  EXPECT_EQ(cache.allocator().n_free(), 4);
  extend(cache, {{a, 7}});
  EXPECT_THAT(cache.pages(a), ElementsAre(0, 1, 2)) << "the page freed last comes first";
  cache.truncate(a, 0);
  EXPECT_THAT(cache.pages(a), IsEmpty());
  EXPECT_EQ(cache.allocator().n_free(), 6);
  EXPECT_EQ(cache.allocator().peak_used(), 4);
}

TEST_F(PagedKvCacheTest, AForkSharesAllPagesUntilSomebodyWrites) {
  PagedKvCache cache(backend_, kShape, 6, 4);
  const SequenceId a = sequence(cache, 6);
  write(cache, a, 5, 55);
  const SequenceId b = cache.fork(a);
  EXPECT_EQ(cache.length(b), 6);
  EXPECT_THAT(cache.pages(b), ElementsAre(0, 1));
  EXPECT_EQ(cache.allocator().n_used(), 2);
  EXPECT_EQ(cache.allocator().n_shared(), 2);

  extend(cache, {{b, 1}});
  EXPECT_THAT(cache.pages(b), ElementsAre(0, 2)) << "copy on write";
  EXPECT_EQ(cache.bytes_copied(), 2 * kTokenBytes) << "only the rows in use";
  EXPECT_EQ(read(cache, b, 5), 55);
  EXPECT_EQ(cache.allocator().n_shared(), 1) << "who copies a page gives it up, or it leaks";

  extend(cache, {{a, 1}});
  EXPECT_THAT(cache.pages(a), ElementsAre(0, 1)) << "the only owner by now";
  EXPECT_EQ(cache.bytes_copied(), 2 * kTokenBytes);
  write(cache, a, 6, 1);
  write(cache, b, 6, 2);
  EXPECT_EQ(read(cache, a, 6), 1);
}

TEST_F(PagedKvCacheTest, FullPagesAreNeverCopied) {
  PagedKvCache cache(backend_, kShape, 6, 4);
  const SequenceId a = sequence(cache, 8);
  const SequenceId b = cache.fork(a);
  extend(cache, {{a, 1}, {b, 1}});
  EXPECT_THAT(cache.pages(a), ElementsAre(0, 1, 2));
  EXPECT_THAT(cache.pages(b), ElementsAre(0, 1, 3));
  EXPECT_EQ(cache.bytes_copied(), 0u);
}

TEST_F(PagedKvCacheTest, AppendingNothingCopiesNothing) {
  PagedKvCache cache(backend_, kShape, 2, 4);
  const SequenceId a = sequence(cache, 6);
  const SequenceId b = cache.fork(a);
  extend(cache, {{a, 0}, {b, 0}});
  EXPECT_THAT(cache.pages(b), ElementsAre(0, 1));
  EXPECT_EQ(cache.bytes_copied(), 0u);
}

TEST_F(PagedKvCacheTest, OfForksExtendedTogetherTheLastKeepsThePage) {
  PagedKvCache cache(backend_, kShape, 4, 4);
  const SequenceId a = sequence(cache, 7);
  const SequenceId b = cache.fork(a), c = cache.fork(a);
  EXPECT_TRUE(can_extend(cache, {{a, 1}, {b, 1}, {c, 1}})) << "two copies, two pages free";
  EXPECT_FALSE(can_extend(cache, {{a, 1}, {b, 1}, {c, 2}})) << "and another page for c";
  EXPECT_TRUE(can_extend(cache, {{a, 1}, {b, 0}, {c, 1}}));
  extend(cache, {{a, 1}, {b, 1}, {c, 1}});
  EXPECT_THAT(cache.pages(a), ElementsAre(0, 2));
  EXPECT_THAT(cache.pages(b), ElementsAre(0, 3));
  EXPECT_THAT(cache.pages(c), ElementsAre(0, 1));
  EXPECT_EQ(cache.bytes_copied(), 2 * 3 * kTokenBytes);
  EXPECT_EQ(cache.allocator().n_free(), 0);
}

TEST_F(PagedKvCacheTest, ACopyNeedsAFreePage) {
  PagedKvCache cache(backend_, kShape, 2, 4);
  const SequenceId a = sequence(cache, 7);
  const SequenceId b = cache.fork(a);
  EXPECT_FALSE(can_extend(cache, {{a, 1}}));
  EXPECT_THROW(extend(cache, {{a, 1}}), CacheFull);
  EXPECT_THAT(cache.pages(a), ElementsAre(0, 1));
  cache.release(b);
  EXPECT_TRUE(can_extend(cache, {{a, 1}})) << "nobody else reads the page now";
  extend(cache, {{a, 1}});
  EXPECT_EQ(cache.bytes_copied(), 0u);
}

TEST_F(PagedKvCacheTest, AfterTruncatingIntoASharedPageTheNextTokenCopiesIt) {
  PagedKvCache cache(backend_, kShape, 6, 4);
  const SequenceId a = sequence(cache, 8);
  write(cache, a, 5, 55);
  const SequenceId b = cache.fork(a);
  cache.truncate(b, 5);
  EXPECT_THAT(cache.pages(b), ElementsAre(0, 1));
  EXPECT_EQ(cache.allocator().n_shared(), 2) << "the partial page stays shared";
  extend(cache, {{b, 1}});
  EXPECT_THAT(cache.pages(b), ElementsAre(0, 2));
  EXPECT_EQ(cache.bytes_copied(), 1 * kTokenBytes);
  write(cache, b, 5, 66);
  EXPECT_EQ(read(cache, a, 5), 55);
}

TEST_F(PagedKvCacheTest, APrefixIsSharedByPages) {
  PagedKvCache cache(backend_, kShape, 8, 4);
  const SequenceId a = sequence(cache, 11);
  const SequenceId b = cache.share_prefix(a, 8);
  const SequenceId c = cache.share_prefix(a, 5);
  const SequenceId d = cache.share_prefix(a, 0);
  EXPECT_THAT(cache.pages(b), ElementsAre(0, 1));
  EXPECT_THAT(cache.pages(c), ElementsAre(0, 1));
  EXPECT_THAT(cache.pages(d), IsEmpty());
  EXPECT_EQ(cache.allocator().owners(1), 3);
  EXPECT_EQ(cache.allocator().owners(2), 1);
  EXPECT_EQ(cache.allocator().n_used(), 3);
  EXPECT_EQ(cache.length(c), 5);
  cache.release(a);
  EXPECT_EQ(cache.allocator().n_used(), 2) << "what others still read stays";
  cache.release(b);
  extend(cache, {{c, 1}});
  EXPECT_EQ(cache.bytes_copied(), 0u);
  cache.release(c);
  EXPECT_EQ(cache.allocator().n_free(), 8);
  EXPECT_EQ(cache.allocator().peak_used(), 3);
}

TEST_F(PagedKvCacheTest, PagesAreSharedByNumber) {
  PagedKvCache cache(backend_, kShape, 8, 4);
  const SequenceId a = sequence(cache, 10), b = sequence(cache, 4);
  const SequenceId c = cache.share_pages(std::array{3, 1});
  EXPECT_EQ(cache.length(c), 8);
  EXPECT_THAT(cache.pages(c), ElementsAre(3, 1));
  EXPECT_EQ(cache.allocator().owners(3), 2);
  EXPECT_EQ(cache.allocator().owners(1), 2);
  EXPECT_EQ(cache.allocator().n_used(), 4);
  extend(cache, {{c, 1}});
  EXPECT_THAT(cache.pages(c), ElementsAre(3, 1, 4)) << "full pages are not copied";
  EXPECT_EQ(cache.bytes_copied(), 0u);
  const SequenceId d = cache.share_pages({});
  EXPECT_EQ(cache.length(d), 0);
  const SequenceId e = cache.share_pages(cache.pages(c).first(2));
  EXPECT_THAT(cache.pages(e), ElementsAre(3, 1)) << "read while the sequences moved";
  for (const SequenceId id : {a, b, c, d, e}) cache.release(id);
  EXPECT_EQ(cache.allocator().n_free(), 8);
}

TEST_F(PagedKvCacheTest, AHeldPageOutlivesItsSequence) {
  PagedKvCache cache(backend_, kShape, 3, 4);
  const SequenceId a = sequence(cache, 8);
  write(cache, a, 1, 11);
  cache.hold(0);
  cache.hold(0);
  EXPECT_EQ(cache.allocator().owners(0), 3);
  EXPECT_EQ(cache.allocator().owners(1), 1);
  cache.release(a);
  EXPECT_EQ(cache.allocator().n_free(), 2);
  const SequenceId b = sequence(cache, 8);
  EXPECT_THAT(cache.pages(b), ElementsAre(1, 2)) << "page 0 is not to be had";
  EXPECT_FALSE(can_extend(cache, {{b, 1}}));
  cache.drop(0);
  EXPECT_EQ(cache.allocator().owners(0), 1);
  EXPECT_FALSE(can_extend(cache, {{b, 1}})) << "held once more";
  const SequenceId c = cache.share_pages(std::array{0});
  EXPECT_EQ(read(cache, c, 1), 11);
  cache.drop(0);
  EXPECT_EQ(read(cache, c, 1), 11) << "now the sequence has it";
  cache.release(c);
  EXPECT_EQ(cache.allocator().owners(0), 0);
  EXPECT_TRUE(can_extend(cache, {{b, 1}}));
}

TEST_F(PagedKvCacheTest, NobodyWritesToAHeldPage) {
  PagedKvCache cache(backend_, kShape, 6, 4);
  const SequenceId a = sequence(cache, 6);
  write(cache, a, 5, 55);
  cache.hold(1);
  extend(cache, {{a, 1}});
  EXPECT_THAT(cache.pages(a), ElementsAre(0, 2)) << "copy on write";
  EXPECT_EQ(cache.bytes_copied(), 2 * kTokenBytes);
  EXPECT_EQ(read(cache, a, 5), 55);
  EXPECT_EQ(cache.allocator().owners(1), 1) << "the hold";
  cache.hold(2);
  const SequenceId b = cache.fork(a);
  EXPECT_TRUE(can_extend(cache, {{a, 1}, {b, 3}}));
  EXPECT_FALSE(can_extend(cache, {{a, 1}, {b, 6}})) << "both copy: the hold is the last owner";
  extend(cache, {{a, 1}, {b, 1}});
  EXPECT_THAT(cache.pages(a), ElementsAre(0, 3));
  EXPECT_THAT(cache.pages(b), ElementsAre(0, 4));
  cache.drop(1);
  cache.drop(2);
  EXPECT_EQ(cache.allocator().n_used(), 3);
}

TEST_F(PagedKvCacheTest, FullCachesSayHowFullAndChangeNothing) {
  PagedKvCache cache(backend_, kShape, 5, 4);
  const SequenceId a = sequence(cache, 6), b = cache.fork(a), c = sequence(cache, 4);
  EXPECT_THAT(error_message([&] {
                extend(cache, {{c, 1}, {a, 1}, {b, 4}});
              }),
              StrEq("the KV cache is full: it needs 3 more pages of 4 tokens, and 2 of 5 are free; "
                    "raise --pages, or run fewer or shorter sequences"));
  EXPECT_EQ(cache.length(a), 6);
  EXPECT_EQ(cache.length(c), 4);
  EXPECT_THAT(cache.pages(a), ElementsAre(0, 1));
  EXPECT_THAT(cache.pages(b), ElementsAre(0, 1));
  EXPECT_THAT(cache.pages(c), ElementsAre(2));
  EXPECT_EQ(cache.allocator().n_free(), 2);
  EXPECT_EQ(cache.allocator().peak_used(), 3);
  EXPECT_EQ(cache.bytes_copied(), 0u);
  extend(cache, {{c, 5}});
  EXPECT_THAT(error_message([&] {
                extend(cache, {{a, 1}});
              }),
              StrEq("the KV cache is full: it needs 1 more page of 4 tokens, and 0 of 5 are free; "
                    "raise --pages, or run fewer or shorter sequences"));
  EXPECT_ERROR(extend(cache, {{c, std::numeric_limits<int>::max()}}),
               "it needs 536870911 more pages of 4 tokens, and 0 of 5 are free");
  PagedKvCache tiny(backend_, kShape, 1, 1);
  EXPECT_ERROR(sequence(tiny, 2), "it needs 2 more pages of 1 token, and 1 of 1 is free");
}

TEST_F(PagedKvCacheTest, IdsOfReleasedSequencesAreUsedAgainLowestFirst) {
  PagedKvCache cache(backend_, kShape, 6, 4);
  for (int i = 0; i < 4; i++) EXPECT_EQ(sequence(cache, 2), i);
  cache.release(3);
  cache.release(1);
  EXPECT_THAT(cache.sequences(), ElementsAre(0, 2));
  EXPECT_EQ(cache.create(), 1);
  EXPECT_EQ(cache.length(1), 0);
  EXPECT_THAT(cache.pages(1), IsEmpty());
  EXPECT_EQ(cache.fork(2), 3);
  EXPECT_EQ(cache.create(), 4);
}

TEST_F(PagedKvCacheTest, MoreThanThereCanBeIsRefused) {
  constexpr int kHuge = std::numeric_limits<int>::max();
  EXPECT_ERROR(PagedKvCache(backend_, kShape, kHuge, kHuge), "more than any cache here can hold");
  EXPECT_ERROR(PagedKvCache(backend_, kShape, 12'500'000, 16), "needs 6.4 GB for 200000000 tokens");
}

TEST_F(PagedKvCacheTest, TheDecodeLoopAllocatesNothing) {
  for (const int page_size : {1, 3, 16}) {
    PagedKvCache cache(backend_, kShape, 640 / page_size, page_size);
    const SequenceId a = sequence(cache, 5), b = cache.fork(a);
    const std::array<Extension, 2> round = {{{a, 6}, {b, 3}}};
    const std::size_t before = allocations();
    while (cache.can_extend(round)) {
      cache.extend(round);
      cache.truncate(a, cache.length(a) - 4);
      cache.truncate(b, cache.length(b) - 1);
    }
    EXPECT_EQ(allocations(), before) << "pages of " << page_size;
    EXPECT_GT(cache.length(a) + cache.length(b), 580);
    if (page_size > 1) {
      EXPECT_GT(cache.bytes_copied(), 0u) << "copy on write was among the calls";
    }
  }
}

using PagedKvCacheDeathTest = PagedKvCacheTest;

TEST_F(PagedKvCacheDeathTest, MistakesAbort) {
  PagedKvCache cache(backend_, kShape, 6, 4);
  const SequenceId a = sequence(cache, 3);
  EXPECT_DEATH(cache.truncate(a, 4), "to keep 0 to 3 tokens, not 4");
  EXPECT_DEATH(cache.truncate(a, -1), "to keep 0 to 3 tokens, not -1");
  EXPECT_DEATH(cache.share_prefix(a, 4), "to share 0 to 3 tokens, not 4");
  EXPECT_DEATH(cache.share_prefix(a, -1), "to share 0 to 3 tokens, not -1");
  EXPECT_DEATH(extend(cache, {{a, 1}, {a, 1}}), "to extend sequence 0 once in a call");
  EXPECT_DEATH(can_extend(cache, {{a, -1}}), "sequence 0 by 0 or more tokens, not -1");
  EXPECT_DEATH(cache.length(1), "sequence 1 to exist");
  EXPECT_DEATH(cache.length(-1), "sequence -1 to exist");
  EXPECT_DEATH(cache.hold(1), "page 1 to be in use, not free");
  EXPECT_DEATH(cache.hold(6), "page 6 to be one of 6");
  EXPECT_DEATH(cache.drop(0), "page 0 to be held") << "it is the sequence's alone";
  EXPECT_DEATH(cache.drop(-1), "page -1 to be one of 6");
  EXPECT_DEATH(cache.share_pages(std::array{1}), "page 1 to be in use, not free");
  cache.release(a);
  EXPECT_DEATH(cache.release(a), "sequence 0 to exist");
  EXPECT_DEATH(cache.fork(a), "sequence 0 to exist");
}

}  // namespace
}  // namespace specdec
