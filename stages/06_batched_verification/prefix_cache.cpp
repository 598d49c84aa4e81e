#include "stages/06_batched_verification/prefix_cache.h"

#include <algorithm>

#include "common/base/check.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

// FNV-1a (Fowler, Noll and Vo), continued from `hash`. Each step is a bijection, so changing one
// byte always changes the hash.
constexpr std::uint64_t kFnvStart = 0xcbf29ce484222325;
std::uint64_t fnv(std::uint64_t hash, std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) {
    hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3;
  }
  return hash;
}

}  // namespace

std::uint64_t fnv_prefix_hash(std::uint64_t before, std::span<const TokenId> page_tokens) {
  const std::uint64_t start = fnv(kFnvStart, std::as_bytes(std::span(&before, 1)));
  return fnv(start, std::as_bytes(page_tokens));
}

PrefixCache::PrefixCache(PagedKvCache& cache, bool verify, PrefixHash hash)
    : cache_(cache), verify_(verify), hash_(hash), entries_(cache.allocator().n_pages()) {}

// [snippet prefix-find]
// The cached page with this predecessor and these tokens, or kNone.
std::int32_t PrefixCache::find(std::int32_t before, std::span<const TokenId> page_tokens) const {
  const auto [first, last] = pages_by_hash_.equal_range(hash_after(before, page_tokens));
  for (auto found = first; found != last; ++found) {
    const Entry& candidate = entry(found->second);
    if (candidate.before == before && std::ranges::equal(candidate.tokens, page_tokens)) {
      return found->second;
    }
  }
  return kNone;
}

std::vector<std::int32_t> PrefixCache::longest_run(std::span<const TokenId> tokens) const {
  // [task 6.8: find the longest cached prefix]
  std::vector<std::int32_t> run;
  std::int32_t page = kNone;
  for (std::size_t i = 0; i < full_pages(tokens); i++) {
    page = find(page, tokens_of_page(tokens, i));
    if (page == kNone) break;
    run.push_back(page);
  }
  return run;
  // [end task 6.8]
}
// [end snippet prefix-find]

std::uint64_t PrefixCache::hash_after(std::int32_t before,
                                      std::span<const TokenId> page_tokens) const {
  return hash_(before == kNone ? 0 : entry(before).hash, page_tokens);
}

// [snippet prefix-create]
SequenceId PrefixCache::create(std::span<const TokenId> tokens) {
  const std::vector<std::int32_t> run = longest_run(tokens);
  calls_++;
  for (const std::int32_t page : run) {
    if (verify_) verify(page);
    touch(page);
  }
  stats_.lookups++;
  if (!run.empty()) stats_.hits++;
  stats_.tokens_asked += std::ssize(tokens);
  stats_.tokens_found += std::ssize(run) * cache_.page_size();
  return cache_.share_pages(run);
}

void PrefixCache::add(SequenceId sequence, std::span<const TokenId> tokens) {
  const auto computed = static_cast<std::size_t>(cache_.length(sequence) / cache_.page_size());
  const std::span<const std::int32_t> own = cache_.pages(sequence);
  calls_++;
  std::int32_t before = kNone;
  for (std::size_t i = 0; i < std::min(full_pages(tokens), computed); i++) {
    std::int32_t page = find(before, tokens_of_page(tokens, i));
    if (page == kNone) {
      page = own[i];
      insert(page, before, tokens_of_page(tokens, i));
    }
    touch(page);
    if (page != own[i]) break;  // a copy: the sequence does not use the cached page
    before = page;
  }
}
// [end snippet prefix-create]

int PrefixCache::match_length(std::span<const TokenId> tokens) const {
  return int_size(longest_run(tokens)) * cache_.page_size();
}

// [snippet prefix-evict]
bool PrefixCache::evict() {
  const auto oldest = std::ranges::find_if(leaves_, [&](const auto& leaf) {
    return cache_.allocator().owners(leaf.second) == 1;  // evicting a page in use frees nothing
  });
  if (oldest == leaves_.end()) return false;
  remove(oldest->second);
  stats_.pages_evicted++;
  return true;
}
// [end snippet prefix-evict]

// Counting owners suffices: a sequence that uses a page's successor also owns the page.
int PrefixCache::evictable() const {
  return static_cast<int>(std::ranges::count_if(pages_by_hash_, [&](const auto& cached) {
    return cache_.allocator().owners(cached.second) == 1;
  }));
}

void PrefixCache::clear() {
  while (!leaves_.empty()) remove(leaves_.begin()->second);
}

// The number of full pages in all tokens but the last.
std::size_t PrefixCache::full_pages(std::span<const TokenId> tokens) const {
  if (tokens.empty()) return 0;
  return (tokens.size() - 1) / static_cast<std::size_t>(cache_.page_size());
}

std::span<const TokenId> PrefixCache::tokens_of_page(std::span<const TokenId> tokens,
                                                     std::size_t i) const {
  const auto page_size = static_cast<std::size_t>(cache_.page_size());
  return tokens.subspan(i * page_size, page_size);
}

void PrefixCache::insert(std::int32_t page, std::int32_t before,
                         std::span<const TokenId> page_tokens) {
  Entry& added = entry(page);
  SPECDEC_CHECK(added.tokens.empty(), "page {} of a prompt not to be cached as one of another",
                page);
  added.before = before;
  added.hash = hash_after(before, page_tokens);
  added.tokens.assign(page_tokens.begin(), page_tokens.end());
  added.last_use = calls_;
  for (int i = 0; verify_ && i < cache_.memory().shape().n_layers; i++) {
    added.sums.push_back(sum_of(page, i));
  }
  cache_.hold(page);
  pages_by_hash_.emplace(added.hash, page);
  leaves_.emplace(added.last_use, page);
  if (before != kNone && entry(before).followers++ == 0) {
    leaves_.erase({entry(before).last_use, before});
  }
  stats_.pages_added++;
}

// REQUIRES: the page has no cached successor.
void PrefixCache::remove(std::int32_t page) {
  const Entry removed = std::exchange(entry(page), {});
  leaves_.erase({removed.last_use, page});
  const auto [first, last] = pages_by_hash_.equal_range(removed.hash);
  pages_by_hash_.erase(std::find_if(first, last, [&](const auto& p) { return p.second == page; }));
  if (removed.before != kNone && --entry(removed.before).followers == 0) {
    leaves_.emplace(entry(removed.before).last_use, removed.before);
  }
  cache_.drop(page);
}

void PrefixCache::touch(std::int32_t page) {
  Entry& used = entry(page);
  const bool is_leaf = leaves_.erase({used.last_use, page}) > 0;
  used.last_use = calls_;
  if (is_leaf) leaves_.emplace(used.last_use, page);
}

// The checksum of a page's keys and values in one layer.
std::uint64_t PrefixCache::sum_of(std::int32_t page, int layer) const {
  const KvMemory& memory = cache_.memory();
  const std::size_t bytes =
      static_cast<std::size_t>(cache_.page_size()) * memory.shape().key_bytes();
  std::vector<std::byte> held(bytes);
  std::uint64_t sum = kFnvStart;
  for (const void* data : {memory.layer(layer).keys, memory.layer(layer).values}) {
    const auto* pages = static_cast<const std::byte*>(data);
    memory.backend().download(pages + static_cast<std::size_t>(page) * bytes, held.data(), bytes);
    sum = fnv(sum, held);
  }
  return sum;
}

void PrefixCache::verify(std::int32_t page) const {
  const std::vector<std::uint64_t>& sums = entry(page).sums;
  for (std::size_t i = 0; i < sums.size(); i++) {
    SPECDEC_CHECK(sum_of(page, static_cast<int>(i)) == sums[i],
                  "page {} to hold in layer {} what it held when the prefix cache took it in", page,
                  i);
  }
}

}  // namespace specdec
