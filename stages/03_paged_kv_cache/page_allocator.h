#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/int_size.h"

namespace specdec {

// ceil(tokens / page_size).
template <std::integral Length>
constexpr Length pages_for(Length tokens, int page_size) {
  return (tokens + page_size - 1) / page_size;
}

// Knows which pages of a pool are free, and how many owners the others have. It does not know what
// the pages hold.
//
// Invariant: a page is in the free list, once, exactly when it has no owner.
class PageAllocator {
 public:
  explicit PageAllocator(int n_pages);

  // A free page, now with one owner: the page that was freed last, or at first pages 0, 1, 2, ...
  // So the same calls give the same pages in every run. REQUIRES: n_free() > 0.
  std::int32_t allocate();
  // Adds an owner. REQUIRES: the page has one already.
  void share(std::int32_t page);
  // Removes an owner; without any, the page is free again. REQUIRES: the page has an owner.
  void free(std::int32_t page);

  int owners(std::int32_t page) const;  // 0: free
  int n_pages() const { return int_size(owners_); }
  int n_free() const { return int_size(free_pages_); }
  int n_used() const { return n_pages() - n_free(); }
  int n_shared() const { return n_shared_; }  // pages with several owners
  int peak_used() const { return peak_used_; }

 private:
  std::int32_t& owners_of_used(std::int32_t page);

  std::vector<std::int32_t> owners_;      // [n_pages]
  std::vector<std::int32_t> free_pages_;  // a stack, with memory reserved for all pages
  int n_shared_ = 0;
  int peak_used_ = 0;
};

}  // namespace specdec
