#include "stages/03_paged_kv_cache/paged_kv_cache.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "kernels/int_size.h"

namespace specdec {

PagedKvCache::PagedKvCache(Backend& backend, const KvShape& shape, int n_pages, int page_size)
    : page_size_(page_size),
      memory_(backend, shape, std::int64_t{n_pages} * page_size),
      allocator_(n_pages),
      holds_(n_pages, 0) {}

SequenceId PagedKvCache::create() {
  auto place = std::ranges::find(sequences_, false, &Sequence::exists);
  if (place == sequences_.end()) {
    place = sequences_.emplace(sequences_.end());
    // extend() allocates nothing, however long the sequence gets.
    place->table.reserve(allocator_.n_pages());
  }
  place->exists = true;
  return place - sequences_.begin();
}

// [snippet fork]
SequenceId PagedKvCache::fork(SequenceId sequence) {
  return share_prefix(sequence, length(sequence));
}

SequenceId PagedKvCache::share_prefix(SequenceId from, int length) {
  SPECDEC_CHECK(0 <= length && length <= get(from).length, "to share 0 to {} tokens, not {}",
                get(from).length, length);
  return share(pages(from).first(pages_for(length)), length);
}

SequenceId PagedKvCache::share(std::span<const std::int32_t> pages, int length) {
  // [task 3.5: share the pages of a fork]
  const SequenceId result = create();  // may move a table that holds `pages`, but not its entries
  Sequence& s = get(result);
  for (const std::int32_t page : pages) {
    allocator_.share(page);
    s.table.push_back(page);
  }
  s.length = length;
  return result;
  // [end task 3.5]
}
// [end snippet fork]

// [snippet holds]
SequenceId PagedKvCache::share_pages(std::span<const std::int32_t> pages) {
  return share(pages, int_size(pages) * page_size_);
}

void PagedKvCache::hold(std::int32_t page) {
  allocator_.share(page);
  ++holds_[page];
}

void PagedKvCache::drop(std::int32_t page) {
  SPECDEC_CHECK(allocator_.owners(page) > 0 && holds_[page] > 0, "page {} to be held", page);
  --holds_[page];
  allocator_.free(page);
}
// [end snippet holds]

void PagedKvCache::release(SequenceId sequence) {
  truncate(sequence, 0);
  get(sequence).exists = false;
}

// [snippet truncate]
void PagedKvCache::truncate(SequenceId sequence, int length) {
  // [task 3.7: truncate a sequence]
  Sequence& s = get(sequence);
  SPECDEC_CHECK(0 <= length && length <= s.length, "to keep 0 to {} tokens, not {}", s.length,
                length);
  // A last page that is partly needed stays. If it is shared, extend() copies it before a write.
  while (s.table.size() > pages_for(length)) {
    allocator_.free(s.table.back());
    s.table.pop_back();  // the page may soon be another sequence's
  }
  s.length = length;
  // [end task 3.7]
}
// [end snippet truncate]

// [snippet paged-extend]
void PagedKvCache::extend(std::span<const Extension> extensions) {
  check_extensions(extensions);
  // [task 3.4: extend a sequence]
  // If there are not enough pages, nothing is changed.
  const std::int64_t needed = pages_needed(extensions);
  if (needed > allocator_.n_free()) fail_full(needed);

  for (const Extension& extension : extensions) {
    Sequence& s = get(extension.sequence);
    if (writes_into_last_page(extension) && allocator_.owners(s.table.back()) > 1) {
      copy_last_page(s);
    }
    s.length += extension.tokens;
    while (s.table.size() < pages_for(s.length)) s.table.push_back(allocator_.allocate());
  }
  // [end task 3.4]
}
// [end snippet paged-extend]

bool PagedKvCache::can_extend(std::span<const Extension> extensions) const {
  check_extensions(extensions);
  return pages_needed(extensions) <= allocator_.n_free();
}

// [snippet copy-on-write]
// A sequence is about to append to a page that has other owners. It gets its own copy of the page's
// rows up to its length; the other owners keep the page.
void PagedKvCache::copy_last_page(Sequence& s) {
  // [task 3.6: copy on write]
  const std::int32_t shared = s.table.back();
  const std::int32_t own = allocator_.allocate();
  const int rows = s.length % page_size_;
  memory_.copy(shared * page_size_, own * page_size_, rows);
  bytes_copied_ += rows * memory_.shape().bytes_per_token();
  allocator_.free(shared);
  s.table.back() = own;
  // [end task 3.6]
}
// [end snippet copy-on-write]

// [snippet pages-needed]
// How many pages extend() will take from the free list: for growth, and for copies.
std::int64_t PagedKvCache::pages_needed(std::span<const Extension> extensions) const {
  // [task 3.3: how many pages will be needed]
  std::int64_t needed = 0;
  for (std::size_t i = 0; i < extensions.size(); ++i) {
    const Sequence& s = get(extensions[i].sequence);
    const std::size_t pages = pages_for(std::int64_t{s.length} + extensions[i].tokens);
    needed += pages - s.table.size();
    if (needs_copy(extensions, i)) ++needed;
  }
  return needed;
  // [end task 3.3]
}

// Whether the page that extension i appends to will still be shared when it is extended. By then,
// earlier extensions that append to the same page have left it, so its last owner needs no copy.
bool PagedKvCache::needs_copy(std::span<const Extension> extensions, std::size_t i) const {
  if (!writes_into_last_page(extensions[i])) return false;
  const std::int32_t page = get(extensions[i].sequence).table.back();
  const auto left = std::ranges::count_if(extensions.first(i), [&](const Extension& e) {
    return writes_into_last_page(e) && get(e.sequence).table.back() == page;
  });
  return allocator_.owners(page) - left > 1;
}

bool PagedKvCache::writes_into_last_page(const Extension& extension) const {
  return extension.tokens > 0 && get(extension.sequence).length % page_size_ != 0;
}
// [end snippet pages-needed]

void PagedKvCache::fail_full(std::int64_t needed) const {
  throw CacheFull(fmt::format(
      "the KV cache is full: it needs {} more page{} of {} token{}, and {} of {} {} free; raise "
      "--pages, or run fewer or shorter sequences",
      needed, needed == 1 ? "" : "s", page_size_, page_size_ == 1 ? "" : "s", allocator_.n_free(),
      allocator_.n_pages(), allocator_.n_free() == 1 ? "is" : "are"));
}

int PagedKvCache::length(SequenceId sequence) const { return get(sequence).length; }

std::span<const std::int32_t> PagedKvCache::pages(SequenceId sequence) const {
  return get(sequence).table;
}

std::vector<SequenceId> PagedKvCache::sequences() const {
  std::vector<SequenceId> result;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    if (sequences_[i].exists) result.push_back(i);
  }
  return result;
}

std::size_t PagedKvCache::pages_for(std::int64_t length) const {
  return specdec::pages_for(length, page_size_);
}

PagedKvCache::Sequence& PagedKvCache::get(SequenceId sequence) {
  return const_cast<Sequence&>(std::as_const(*this).get(sequence));
}

const PagedKvCache::Sequence& PagedKvCache::get(SequenceId sequence) const {
  SPECDEC_CHECK(0 <= sequence && sequence < int_size(sequences_) && sequences_[sequence].exists,
                "sequence {} to exist", sequence);
  return sequences_[sequence];
}

}  // namespace specdec
