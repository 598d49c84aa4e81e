#include "stages/programs/cache/make_cache.h"

#include "common/base/error.h"
#include "stages/02_contiguous_kv_cache/contiguous_kv_cache.h"
#include "stages/03_paged_kv_cache/page_allocator.h"
#include "stages/03_paged_kv_cache/paged_kv_cache.h"

namespace specdec {

CacheLayout cache_layout(const RunOptions& options, int positions, int sequences) {
  return {.type = options.kv_type,
          .paged = options.cache == CacheKind::kPaged,
          .page_size = options.page_size,
          .pages = options.pages > 0 ? options.pages
                                     : sequences * pages_for(positions, options.page_size),
          .positions = positions,
          .sequences = sequences};
}

std::unique_ptr<KvCache> make_cache(const LlamaModel& model, const CacheLayout& layout) {
  const KvShape shape = model.kv_shape(layout.type);
  if (!layout.paged) {
    return std::make_unique<ContiguousKvCache>(model.backend(), shape, layout.sequences,
                                               layout.positions);
  }
  return std::make_unique<PagedKvCache>(model.backend(), shape, layout.pages, layout.page_size);
}

void check_pool(const RunOptions& options, int tokens) {
  if (options.cache != CacheKind::kPaged || options.pages == 0) return;
  const int needed = pages_for(tokens, options.page_size);
  if (options.pages < needed) {
    fail(
        "{} pages of {} cannot hold {} tokens: give --pages {} or more, or reduce --max-new-tokens",
        options.pages, options.page_size, tokens, needed);
  }
}

}  // namespace specdec
