#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/kv_cache.h"
#include "stages/03_paged_kv_cache/page_allocator.h"

namespace specdec {

// A cache in pages of page_size slots. Sequences take pages one by one as they grow, and share
// pages if they begin with the same tokens (Kwon et al. 2023, PagedAttention). A sequence has a
// page table, which maps positions to slots:
//
//   slot of (sequence, position) = table[position / page_size] * page_size + position % page_size
//
//   page      0           1           2           3           4
//             [k k k k k k|k k k k . .|k k k . . .|. . . . . .|. . . . . .]
//   table of sequence 0: 0 1    10 tokens          free        free
//   table of sequence 1: 0 2     9 tokens, the first 6 shared with sequence 0
//
// Invariants, besides those of KvCache:
// - a table has exactly the pages that its length needs: ceil(length / page_size), all different;
// - the owners of a page are the tables that contain it, and its holds; without any, it is free;
// - a sequence that appends to a page is its only owner (copy on write ensures that).
class PagedKvCache : public KvCache {
 public:
  // Allocates all memory. Throws Error when there is not enough.
  // REQUIRES: n_pages >= 1, page_size >= 1.
  PagedKvCache(Backend& backend, const KvShape& shape, int n_pages, int page_size);

  SequenceId create() override;  // takes no page, and never throws CacheFull
  SequenceId fork(SequenceId sequence) override;
  // A new sequence with the first `length` tokens of another; shares their pages and copies
  // nothing. REQUIRES: 0 <= length <= length(from).
  SequenceId share_prefix(SequenceId from, int length);
  // A new sequence of full pages, pages.size() * page_size() tokens long; shares them and copies
  // nothing. The pages may be those of a sequence. REQUIRES: every page has an owner, none comes
  // twice.
  SequenceId share_pages(std::span<const std::int32_t> pages);
  void release(SequenceId sequence) override;

  // Adds or removes an owner that is not a sequence, such as a cache of prompts. A held page is
  // never written.
  void hold(std::int32_t page);  // REQUIRES: the page has an owner.
  void drop(std::int32_t page);  // REQUIRES: the page is held.

  int length(SequenceId sequence) const override;
  void extend(std::span<const Extension> extensions) override;
  bool can_extend(std::span<const Extension> extensions) const override;
  void truncate(SequenceId sequence, int length) override;

  // Valid until the sequence changes.
  std::span<const std::int32_t> pages(SequenceId sequence) const override;
  int page_size() const override { return page_size_; }
  const KvMemory& memory() const override { return memory_; }

  const PageAllocator& allocator() const { return allocator_; }  // counts, for people and tests
  std::size_t bytes_copied() const { return bytes_copied_; }     // by copy on write, so far
  std::vector<SequenceId> sequences() const;                     // those that exist, ascending

 private:
  struct Sequence {
    bool exists = false;
    int length = 0;                   // tokens cached
    std::vector<std::int32_t> table;  // with memory reserved for all pages of the pool
  };

  SequenceId share(std::span<const std::int32_t> pages, int length);
  Sequence& get(SequenceId sequence);
  const Sequence& get(SequenceId sequence) const;
  std::size_t pages_for(std::int64_t length) const;  // ceil(length / page_size)
  bool writes_into_last_page(const Extension& extension) const;
  bool needs_copy(std::span<const Extension> extensions, std::size_t i) const;
  std::int64_t pages_needed(std::span<const Extension> extensions) const;
  void copy_last_page(Sequence& sequence);
  [[noreturn]] void fail_full(std::int64_t needed) const;

  int page_size_;
  KvMemory memory_;
  PageAllocator allocator_;
  std::vector<Sequence> sequences_;  // by SequenceId
  std::vector<std::int32_t> holds_;  // [n_pages] how many of the page's owners are holds
  std::size_t bytes_copied_ = 0;
};

}  // namespace specdec
