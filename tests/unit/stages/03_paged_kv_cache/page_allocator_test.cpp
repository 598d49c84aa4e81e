#include "stages/03_paged_kv_cache/page_allocator.h"

#include <map>
#include <random>
#include <set>
#include <vector>

#include "tests/test_support.h"

namespace specdec {
namespace {

TEST(PagesForTest, CountsTheLastPageHoweverFullItIs) {
  for (const int page_size : {1, 3, 16}) {
    for (int tokens = 0; tokens <= 50; ++tokens) {
      const int pages = pages_for(tokens, page_size);
      EXPECT_GE(pages * page_size, tokens);
      EXPECT_LT((pages - 1) * page_size, std::max(tokens, 1)) << "one page less is too few";
    }
  }
  EXPECT_EQ(pages_for(std::int64_t{1} << 40, 16), std::int64_t{1} << 36);
  EXPECT_EQ(pages_for(std::numeric_limits<int>::max() + std::int64_t{1}, 16), 1 << 27);
}

TEST(PageAllocatorTest, TakesPagesInOrderAndTheOneFreedLastFirst) {
  PageAllocator pages(4);
  EXPECT_EQ(pages.n_free(), 4);
  EXPECT_EQ(pages.allocate(), 0);
  EXPECT_EQ(pages.allocate(), 1);
  EXPECT_EQ(pages.allocate(), 2);
  pages.free(0);
  pages.free(2);
  EXPECT_EQ(pages.allocate(), 2);
  EXPECT_EQ(pages.allocate(), 0);
  EXPECT_EQ(pages.allocate(), 3);
  EXPECT_EQ(pages.n_free(), 0);
}

TEST(PageAllocatorTest, APageIsFreeWhenItsLastOwnerIsGone) {
  PageAllocator pages(2);
  const std::int32_t page = pages.allocate();
  EXPECT_EQ(pages.owners(page), 1);
  pages.share(page);
  pages.share(page);
  EXPECT_EQ(pages.owners(page), 3);
  EXPECT_EQ(pages.n_shared(), 1);
  pages.free(page);
  EXPECT_EQ(pages.n_shared(), 1);
  pages.free(page);
  EXPECT_EQ(pages.n_shared(), 0);
  EXPECT_EQ(pages.n_free(), 1);
  pages.free(page);
  EXPECT_EQ(pages.owners(page), 0);
  EXPECT_EQ(pages.n_free(), 2);
  EXPECT_EQ(pages.peak_used(), 1) << "the most at one time";
}

TEST(PageAllocatorDeathTest, AbortsOnMistakes) {
  PageAllocator pages(3);
  const std::int32_t page = pages.allocate();
  pages.allocate();
  pages.free(page);
  EXPECT_DEATH(pages.free(page), "page 0 to be in use, not free");
  EXPECT_DEATH(pages.share(page), "page 0 to be in use, not free");
  EXPECT_DEATH(pages.free(2), "page 2 to be in use, not free") << "never allocated";
  EXPECT_DEATH(pages.free(3), "page 3 to be one of 3");
  EXPECT_DEATH(pages.owners(-1), "page -1 to be one of 3");
  pages.allocate();
  pages.allocate();
  EXPECT_DEATH(pages.allocate(), "one of 3 pages to be free");
}

TEST(PageAllocatorTest, AgreesWithAListOfOwners) {
  std::mt19937 generator(1);
  const auto below = [&](std::size_t bound) { return generator() % bound; };
  constexpr int kPages = 7;
  PageAllocator pages(kPages);
  std::vector<std::int32_t> owned;  // a page once for each owner
  std::size_t peak = 0;
  for (int step = 0; step < 100'000; step++) {
    const bool full = pages.n_free() == 0;
    const unsigned choice = static_cast<unsigned>(below(5));
    if (choice < 2 && !full) {
      const std::int32_t page = pages.allocate();
      ASSERT_EQ(std::ranges::count(owned, page), 0) << "step " << step;
      owned.push_back(page);
    } else if (choice == 2 && !owned.empty()) {
      owned.push_back(owned[below(owned.size())]);
      pages.share(owned.back());
    } else if (!owned.empty()) {
      const auto place = owned.begin() + static_cast<long>(below(owned.size()));
      pages.free(*place);
      owned.erase(place);
    }
    std::size_t used = 0, shared = 0;
    for (std::int32_t page = 0; page < kPages; page++) {
      const auto owners = std::ranges::count(owned, page);
      ASSERT_EQ(pages.owners(page), owners) << "step " << step << ", page " << page;
      if (owners > 0) used++;
      if (owners > 1) shared++;
    }
    peak = std::max(peak, used);
    ASSERT_EQ(pages.n_used(), static_cast<int>(used)) << "step " << step;
    ASSERT_EQ(pages.n_free(), kPages - static_cast<int>(used)) << "step " << step;
    ASSERT_EQ(pages.n_shared(), static_cast<int>(shared)) << "step " << step;
    ASSERT_EQ(pages.peak_used(), static_cast<int>(peak)) << "step " << step;
  }
  EXPECT_EQ(peak, kPages);
}

}  // namespace
}  // namespace specdec
