#pragma once
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/token_id.h"
#include "kernels/int_size.h"
#include "stages/03_paged_kv_cache/paged_kv_cache.h"

namespace specdec {

// The hash of a prompt up to the end of a page. before: the hash up to the previous page, 0 for the
// first page. page_tokens: the page's tokens. Equal hashes do not imply equal tokens.
using PrefixHash = std::uint64_t (*)(std::uint64_t before, std::span<const TokenId> page_tokens);
std::uint64_t fnv_prefix_hash(std::uint64_t before, std::span<const TokenId> page_tokens);

struct PrefixCacheStats {
  std::int64_t lookups = 0;       // calls of create()
  std::int64_t hits = 0;          // lookups that found at least one page
  std::int64_t tokens_asked = 0;  // tokens in all lookups
  std::int64_t tokens_found = 0;  // tokens in cached pages, which need not be computed
  std::int64_t pages_added = 0;
  std::int64_t pages_evicted = 0;  // by evict(), not by clear()
};

// Automatic prefix caching: keeps full pages of prompts, so that requests that begin with the same
// tokens compute and store them once. The pages form trees, with the first pages as roots:
//
//   "You are a poet. " -- "Write about the " -- "sea and its isla"     a page of 16 tokens each
//                     \-- "Translate: the s"
//
// A page is found by the hash of all tokens up to its end (as in vLLM), and used only if its own
// tokens and its predecessor match. So a hash collision costs time, but never changes a text.
//
// Invariants:
// - the prefix cache holds each of its pages once (PagedKvCache::hold), so no sequence writes them;
// - the predecessor of a cached page is cached, and was used at least as recently;
// - no two cached pages have the same predecessor and the same tokens;
// - a sequence that uses a cached page uses all of its predecessors. So if two requests compute the
//   same prefix at the same time, the second one keeps its own copy, and its later pages are not
//   added: their predecessors could not be evicted, although no request uses them.
//
// Deterministic: the same calls find, add and evict the same pages. Recency is counted in calls.
class PrefixCache {
 public:
#ifdef NDEBUG
  static constexpr bool kVerifyByDefault = false;
#else
  static constexpr bool kVerifyByDefault = true;
#endif

  // verify: create() compares the contents of every page that it finds with a checksum from when
  // the page was added, and aborts if they differ. This reads the whole page. REQUIRES: the cache
  // outlives this object.
  explicit PrefixCache(PagedKvCache& cache, bool verify = kVerifyByDefault,
                       PrefixHash hash = fnv_prefix_hash);
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;
  ~PrefixCache() { clear(); }

  // Creates a sequence that shares the longest run of cached pages with which `tokens` begin. The
  // last token is never among them, because its logits must be computed. Takes no free page and
  // never throws CacheFull.
  SequenceId create(std::span<const TokenId> tokens);

  // The number of tokens that create() would find. Does not count as a use of the pages.
  int match_length(std::span<const TokenId> tokens) const;

  // Adds the computed pages of `sequence` that are full of `tokens`, the last token excepted. Stops
  // at a page of which the cache already has another copy. Later tokens of the sequence, such as
  // drafts, are never added. REQUIRES: `sequence` and `tokens` (a prompt) agree as far as both go,
  // and the pages of the sequence have been written by a pass.
  void add(SequenceId sequence, std::span<const TokenId> tokens);

  // Frees the least recently used page that has no cached successor and no other owner. Returns
  // false if there is none. Visits at most the last pages of cached prompts.
  bool evict();
  int evictable() const;  // how often evict() would succeed in a row; visits all cached pages

  void clear();  // drops all cached pages; sequences keep the pages that they use

  int pages() const { return int_size(pages_by_hash_); }
  bool holds(std::int32_t page) const { return !entry(page).tokens.empty(); }
  const PrefixCacheStats& stats() const { return stats_; }

 private:
  static constexpr std::int32_t kNone = -1;  // the predecessor of a prompt's first page

  struct Entry {
    std::int32_t before = kNone;      // the predecessor
    std::uint64_t hash = 0;           // of the prompt up to the end of this page
    std::vector<TokenId> tokens;      // [page_size]; empty: the page is not cached
    int followers = 0;                // number of cached successors
    std::int64_t last_use = 0;        // number of the call that last used the page
    std::vector<std::uint64_t> sums;  // [n_layers] checksums when it was added; empty: no verify
  };

  Entry& entry(std::int32_t page) { return entries_[page]; }
  const Entry& entry(std::int32_t page) const { return entries_[page]; }
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
  std::set<std::pair<std::int64_t, std::int32_t>> leaves_;  // (last use, page), no successors
  std::int64_t calls_ = 0;
  PrefixCacheStats stats_;
};

}  // namespace specdec
