#pragma once
#include <memory>
#include <span>

#include "common/kv_cache.h"
#include "stages/03_paged_kv_cache/paged_kv_cache.h"
#include "stages/06_batched_verification/prefix_cache.h"

namespace specdec {

// The scheduler's view of a KV cache: a number of pages, some of them free. The pages of a
// contiguous cache are its regions: a sequence takes one when it is created, and never another.
class KvPool {
 public:
  // cache: null if nothing is cached (a drafter without a model); then there is always room.
  // share_prefixes: keep pages of prompts in a prefix cache; ignored unless the cache is paged.
  // verify: check the contents of pages found there (see PrefixCache). REQUIRES: the cache outlives
  // this object.
  KvPool(KvCache* cache, bool share_prefixes, bool verify);

  // The pages of a sequence of this length; 0 for length kNone, which means no sequence.
  static constexpr int kNone = -1;
  int pages_of(int length) const;
  // The additional pages of a sequence that grows.
  int growth(int from, int to) const { return pages_of(to) - pages_of(from); }

  int n_pages() const { return n_pages_; }
  int n_used() const;  // pages of sequences and of the prefix cache
  int n_free() const { return n_pages_ - n_used(); }
  int n_sequences() const { return n_sequences_; }
  int peak_used() const { return peak_used_; }
  void note_peak() { peak_used_ = std::max(peak_used_, n_used()); }

  // Whether one more sequence can be created. In a contiguous cache it needs a free region.
  bool has_room_for_a_sequence() { return make_room(growth(kNone, 0)); }

  // Ensures that at least `pages` pages are free, by evicting cached prefixes if necessary. Returns
  // false, and evicts nothing, if that would not free enough.
  bool make_room(int pages);

  // Creates a sequence and counts it. It starts with the cached pages that `tokens` begin with, if
  // there is a prefix cache; otherwise make() creates it.
  template <typename Make>
  SequenceId create(std::span<const TokenId> tokens, Make&& make) {
    const SequenceId sequence = prefixes_ ? prefixes_->create(tokens) : make();
    n_sequences_++;
    return sequence;
  }
  void count_release() { n_sequences_--; }  // call after the release of a sequence

  // Adds the full pages of the prompt that are computed to the prefix cache, if there is one.
  void keep_prefix(SequenceId sequence, std::span<const TokenId> prompt) {
    if (prefixes_) prefixes_->add(sequence, prompt);
  }

  const KvCache* cache() const { return cache_; }
  const PagedKvCache* paged() const { return paged_; }             // null: not paged
  const PrefixCache* prefixes() const { return prefixes_.get(); }  // null: no prefix cache
  void clear_prefixes() {
    if (prefixes_) prefixes_->clear();
  }

 private:
  KvCache* cache_;
  PagedKvCache* paged_;
  int n_pages_;
  int n_sequences_ = 0;
  int peak_used_ = 0;
  std::unique_ptr<PrefixCache> prefixes_;
};

}  // namespace specdec
