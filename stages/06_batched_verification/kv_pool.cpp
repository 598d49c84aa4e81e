#include "stages/06_batched_verification/kv_pool.h"

#include <limits>

namespace specdec {

KvPool::KvPool(KvCache* cache, bool share_prefixes, bool verify)
    : cache_(cache),
      paged_(dynamic_cast<PagedKvCache*>(cache)),
      n_pages_(cache ? cache->memory().slots() / cache->page_size()
                     : std::numeric_limits<int>::max()) {
  if (share_prefixes && paged_) prefixes_ = std::make_unique<PrefixCache>(*paged_, verify);
}

int KvPool::pages_of(int length) const {
  if (cache_ == nullptr || length == kNone) return 0;
  return paged_ ? pages_for(length, paged_->page_size()) : 1;
}

int KvPool::n_used() const {
  if (cache_ == nullptr) return 0;
  return paged_ ? paged_->allocator().n_used() : n_sequences_;
}

bool KvPool::make_room(int pages) {
  if (pages <= n_free()) return true;
  if (!prefixes_ || pages > n_free() + prefixes_->evictable()) return false;
  while (pages > n_free() && prefixes_->evict()) {
  }
  return pages <= n_free();
}

}  // namespace specdec
