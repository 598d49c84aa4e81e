#include <set>

#include "stages/03_paged_kv_cache/paged_kv_cache.h"
#include "tests/test_support.h"
#include "tests/unit/common/memory_backend.h"
#include "tests/unit/stages/02_contiguous_kv_cache/kv_cache_driver.h"

namespace specdec {
namespace {

using Model = KvCacheDriver::Model;
using Counts = std::map<std::int32_t, int>;  // of a page

// The owners of each page: the holds, and what is counted in the page tables.
Counts count_owners(const PagedKvCache& cache, const Model& model, const Counts& holds) {
  Counts owners = holds;
  for (const auto& [id, values] : model) {
    for (const std::int32_t page : cache.pages(id)) owners[page]++;
  }
  return owners;
}

// [snippet has-room]
// Plays the call on the counts: one sequence after the other, one token after the other.
bool has_room(const PagedKvCache& cache, const Model& model, const Counts& holds,
              const std::vector<Extension>& call) {
  Counts owners = count_owners(cache, model, holds);
  int free = cache.allocator().n_pages() - static_cast<int>(owners.size());
  for (const auto& [id, tokens] : call) {
    int length = static_cast<int>(model.at(id).size());
    for (int i = 0; i < tokens; i++, length++) {
      if (length % cache.page_size() == 0) {
        free--;
      } else if (i == 0 && owners.at(cache.pages(id).back()) > 1) {
        owners[cache.pages(id).back()]--;
        free--;
      }
    }
  }
  return free >= 0;
}
// [end snippet has-room]

void check_books(const PagedKvCache& cache, const Model& model, const Counts& holds) {
  const Counts owners = count_owners(cache, model, holds);
  const PageAllocator& pages = cache.allocator();
  int shared = 0;
  for (std::int32_t page = 0; page < pages.n_pages(); page++) {
    const auto found = owners.find(page);
    const int expected = found == owners.end() ? 0 : found->second;
    ASSERT_EQ(pages.owners(page), expected)
        << "page " << page
        << ": more owners than tables and holds are a leak, fewer a page that is "
        << "freed while somebody reads it";
    if (expected > 1) shared++;
  }
  ASSERT_EQ(pages.n_used(), static_cast<int>(owners.size()));
  ASSERT_EQ(pages.n_free() + pages.n_used(), pages.n_pages());
  ASSERT_EQ(pages.n_shared(), shared);
  ASSERT_GE(pages.peak_used(), pages.n_used());
  std::vector<SequenceId> ids;
  for (const auto& [id, values] : model) {
    const auto table = cache.pages(id);
    ASSERT_EQ(std::set<std::int32_t>(table.begin(), table.end()).size(), table.size())
        << "a page twice in the table of sequence " << id;
    ids.push_back(id);
  }
  ASSERT_EQ(cache.sequences(), ids);
}

class PagedKvCacheRandomTest : public ::testing::TestWithParam<int> {};

TEST_P(PagedKvCacheRandomTest, AgreesWithAListOfTokens) {
  const int page_size = GetParam();
  MemoryBackend backend;
  const KvShape shape{.n_layers = 2, .n_kv_heads = 1, .head_dim = 2};
  PagedKvCache cache(backend, shape, 12, page_size);
  Counts holds;
  KvCacheDriver::Hooks hooks;
  hooks.longest_extension = page_size + 3;
  hooks.can_create = [](const Model&) { return true; };
  hooks.share_prefix = [&](SequenceId from, int length) {
    return cache.share_prefix(from, length);
  };
  hooks.share_pages = [&](std::span<const std::int32_t> pages) { return cache.share_pages(pages); };
  hooks.hold = [&](std::int32_t page) {
    cache.hold(page);
    holds[page]++;
  };
  hooks.drop = [&](std::int32_t page) {
    cache.drop(page);
    if (--holds[page] == 0) holds.erase(page);
  };
  hooks.has_room = [&](const Model& model, const std::vector<Extension>& call) {
    return has_room(cache, model, holds, call);
  };
  hooks.check_books = [&](const Model& model) { check_books(cache, model, holds); };
  KvCacheDriver driver(cache, hooks, 1);
  drive(driver, 100'000);
  EXPECT_EQ(cache.allocator().n_free(), 12) << "every page came back";
  EXPECT_EQ(cache.allocator().peak_used(), 12) << "the pool was full at times";
  EXPECT_GT(driver.failed_calls(), 1000);
  if (page_size > 1) {
    EXPECT_GT(cache.bytes_copied(), 1000 * shape.bytes_per_token());
  }
}

INSTANTIATE_TEST_SUITE_P(PageSizes, PagedKvCacheRandomTest, ::testing::Values(1, 3, 16),
                         [](const auto& size) { return "Size" + std::to_string(size.param); });

}  // namespace
}  // namespace specdec
