#pragma once
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/token_id.h"
#include "stages/03_paged_kv_cache/paged_kv_cache.h"

namespace specdec {

// The hash of a prompt up to the end of a page: of its hash up to the page before (0 for the first
// page), and the page's tokens. It finds; it proves nothing.
using PrefixHash = std::uint64_t (*)(std::uint64_t before, std::span<const TokenId> page_tokens);
std::uint64_t fnv_prefix_hash(std::uint64_t before, std::span<const TokenId> page_tokens);

struct PrefixCacheStats {
  std::int64_t lookups = 0;       // calls of create()
  std::int64_t hits = 0;          // that found at least one page
  std::int64_t tokens_asked = 0;  // of all prompts
  std::int64_t tokens_found = 0;  // that need not be computed
  std::int64_t pages_added = 0;
  std::int64_t pages_evicted = 0;  // by evict(), not by clear()
};

// Full pages of prompts, kept so that requests which begin with the same tokens compute and store
// them once: same prefix, same bits. The pages form trees, the first page of a prompt at the root:
//
//   "You are a poet. " -- "Write about the " -- "sea and its isla"     a page of 16 tokens each
//                     \-- "Translate: the s"
//
// A page is found by the hash of everything up to its end (as in vLLM), and taken only if its own
// tokens and the page before are the right ones. So equal hashes cost time, never a wrong text.
//
// Invariants:
// - the cache holds each of its pages once (PagedKvCache::hold), so no sequence writes to them;
// - the page before a cached page is cached, and was used at least as recently;
// - no two pages have the same page before and the same tokens.
// - a sequence that uses a cached page uses all cached pages before it. So where two requests
//   computed the same beginning at the same time, the second keeps its own copy, and what it
//   computes after that is not taken in: it would keep pages that no request uses.
//
// Deterministic: the same calls find, add and evict the same pages. Time is the number of calls.
class PrefixCache {
 public:
#ifdef NDEBUG
  static constexpr bool kVerifyByDefault = false;
#else
  static constexpr bool kVerifyByDefault = true;
#endif

  // The cache must outlive this. verify: create() compares every page that it found with a checksum
  // of what the page held when it was added, and aborts if they differ. That reads the whole page.
  explicit PrefixCache(PagedKvCache& cache, bool verify = kVerifyByDefault,
                       PrefixHash hash = fnv_prefix_hash);
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;
  ~PrefixCache() { clear(); }

  // A new sequence on the longest run of cached pages that `tokens` begin with; but at least the
  // last token stays to be computed, as its logits are wanted. Takes no page, and never throws
  // CacheFull.
  SequenceId create(std::span<const TokenId> tokens);

  // How many tokens create() would find. Counts nothing as used.
  int match_length(std::span<const TokenId> tokens) const;

  // Takes in the pages of `sequence` that are full of `tokens` without the last: of those, as many
  // as are computed. Where the cache has such a page already, the sequence keeps its own.
  // REQUIRES: `sequence` and `tokens` (a prompt) begin alike, as far as both go; what follows in
  // the sequence, speculated or not, is never taken in. Its pages are written, not only made room
  // for.
  void add(SequenceId sequence, std::span<const TokenId> tokens);

  // Gives back the least recently used page of those that only the cache owns and that no cached
  // page follows. False if there is none. Before it finds one, it looks at most at the ends of
  // cached prompts that are in use.
  bool evict();
  int evictable() const;  // how often evict() would succeed now; looks at all cached pages

  void clear();  // gives back everything; sequences keep what they use

  int pages() const { return static_cast<int>(pages_by_hash_.size()); }
  bool holds(std::int32_t page) const { return !entry(page).tokens.empty(); }
  const PrefixCacheStats& stats() const { return stats_; }

 private:
  static constexpr std::int32_t kNone = -1;  // before the first page of a prompt

  struct Entry {
    std::int32_t before = kNone;      // the page before
    std::uint64_t hash = 0;           // of the prompt up to the end of this page
    std::vector<TokenId> tokens;      // [page_size]; empty: the page is not cached
    int followers = 0;                // number of cached successors
    std::int64_t last_use = 0;        // in calls
    std::vector<std::uint64_t> sums;  // [n_layers] of what it held; empty without verify
  };

  Entry& entry(std::int32_t page) { return entries_[static_cast<std::size_t>(page)]; }
  const Entry& entry(std::int32_t page) const { return entries_[static_cast<std::size_t>(page)]; }
  std::size_t full_pages(std::span<const TokenId> tokens) const;
  std::span<const TokenId> tokens_of_page(std::span<const TokenId> tokens, std::size_t i) const;
  std::uint64_t hash_after(std::int32_t before, std::span<const TokenId> page_tokens) const;
  std::int32_t find(std::int32_t before, std::span<const TokenId> page_tokens) const;
  std::vector<std::int32_t> longest_run(std::span<const TokenId> tokens) const;
  void insert(std::int32_t page, std::int32_t before, std::span<const TokenId> page_tokens);
  void remove(std::int32_t page);
  void touch(std::int32_t page);
  std::uint64_t sum_of(std::int32_t page, int layer) const;
  void verify(std::int32_t page) const;

  PagedKvCache& cache_;
  bool verify_;
  PrefixHash hash_;
  std::vector<Entry> entries_;  // [n_pages], by page
  std::unordered_multimap<std::uint64_t, std::int32_t> pages_by_hash_;
  std::set<std::pair<std::int64_t, std::int32_t>> leaves_;  // (last use, page) without followers
  std::int64_t calls_ = 0;
  PrefixCacheStats stats_;
};

}  // namespace specdec
