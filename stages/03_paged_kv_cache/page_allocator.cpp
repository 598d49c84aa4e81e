#include "stages/03_paged_kv_cache/page_allocator.h"

#include <algorithm>

#include "common/base/check.h"

namespace specdec {

PageAllocator::PageAllocator(int n_pages) : owners_(n_pages, 0) {
  free_pages_.reserve(owners_.size());
  for (std::int32_t page = n_pages - 1; page >= 0; --page) free_pages_.push_back(page);
}

// [snippet page-allocator]
std::int32_t PageAllocator::allocate() {
  // [task 3.1: allocate a page]
  SPECDEC_CHECK(!free_pages_.empty(), "one of {} pages to be free", n_pages());
  const std::int32_t page = free_pages_.back();
  free_pages_.pop_back();
  owners_[page] = 1;
  peak_used_ = std::max(peak_used_, n_used());
  return page;
  // [end task 3.1]
}

void PageAllocator::share(std::int32_t page) {
  if (++owners_of_used(page) == 2) ++n_shared_;
}

void PageAllocator::free(std::int32_t page) {
  // [task 3.2: free a page]
  // With one owner left, the page is no longer shared. Without any, it goes on top of the stack, so
  // it is allocated next.
  const std::int32_t left = --owners_of_used(page);
  if (left == 1) --n_shared_;
  if (left == 0) free_pages_.push_back(page);
  // [end task 3.2]
}
// [end snippet page-allocator]

int PageAllocator::owners(std::int32_t page) const {
  SPECDEC_CHECK(0 <= page && page < n_pages(), "page {} to be one of {}", page, n_pages());
  return owners_[page];
}

std::int32_t& PageAllocator::owners_of_used(std::int32_t page) {
  SPECDEC_CHECK(owners(page) > 0, "page {} to be in use, not free", page);
  return owners_[page];
}

}  // namespace specdec
