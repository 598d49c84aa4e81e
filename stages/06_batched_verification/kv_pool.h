#pragma once
#include <memory>
#include <span>

#include "common/kv_cache.h"
#include "stages/03_paged_kv_cache/paged_kv_cache.h"
#include "stages/06_batched_verification/prefix_cache.h"

namespace specdec {

// A cache as a scheduler sees it: a number of pages, some of them free. A contiguous cache counts
// as one whose pages are its regions: a sequence takes one when it is made, and never another.
class KvPool {
 public:
  // cache: null where nothing is cached (a drafter without a model): then there is always room.
  // share_prefixes: keep the prompts' pages for others; only a paged cache can. verify: look at
  // what is in a page that is found (see PrefixCache).
  // REQUIRES: the cache outlives this object.
  KvPool(KvCache* cache, bool share_prefixes, bool verify);

  // Pages of a sequence of this length. length kNone: there is no sequence.
  static constexpr int kNone = -1;
  int pages_of(int length) const;
  // Pages that a sequence takes to grow.
  int growth(int from, int to) const { return pages_of(to) - pages_of(from); }

  int n_pages() const { return n_pages_; }
  int n_used() const;  // by sequences and by the prefix cache
  int n_free() const { return n_pages_ - n_used(); }
  int n_sequences() const { return n_sequences_; }
  int peak_used() const { return peak_used_; }
  void note_peak() { peak_used_ = std::max(peak_used_, n_used()); }

  // Whether one more sequence can be made, at whose beginning a contiguous cache gives it a
  // region.
  bool has_room_for_a_sequence() { return make_room(growth(kNone, 0)); }

  // Makes `pages` pages free, at the cost of cached prefixes where need be; false where those do
  // not suffice, which are then left alone.
  bool make_room(int pages);

  // Sequences of a pool are made and released here, so that they are counted. `make`: how to make
  // one without the prefix cache.
  template <typename Make>
  SequenceId create(std::span<const TokenId> tokens, Make&& make) {
    const SequenceId sequence = prefixes_ ? prefixes_->create(tokens) : make();
    n_sequences_++;
    return sequence;
  }
  void count_release() { n_sequences_--; }

  // The prompt's full pages, as far as they are computed, are for others, too.
  void keep_prefix(SequenceId sequence, std::span<const TokenId> prompt) {
    if (prefixes_) prefixes_->add(sequence, prompt);
  }

  const KvCache* cache() const { return cache_; }
  const PagedKvCache* paged() const { return paged_; }             // null: it is not
  const PrefixCache* prefixes() const { return prefixes_.get(); }  // null: there is none
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
