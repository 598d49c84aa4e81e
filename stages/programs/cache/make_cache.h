#pragma once
#include <memory>

#include "common/kv_cache.h"
#include "common/llama_model.h"
#include "stages/programs/run/options.h"

namespace specdec {

struct CacheLayout {
  KvType type = KvType::kF32;
  bool paged = true;
  int page_size = 16;
  int pages = 0;
  // Of a contiguous cache.
  int positions = 0;
  int sequences = 1;
};

// The layout that --kv-dtype, --cache, --page-size and --pages describe. Without --pages, it has
// pages for this many sequences of `positions` positions.
CacheLayout cache_layout(const RunOptions& options, int positions, int sequences = 1);

// Throws Error when there is not enough memory, with the numbers.
std::unique_ptr<KvCache> make_cache(const LlamaModel& model, const CacheLayout& layout);

// Throws Error if --pages is too few for a request that caches `tokens` tokens, so that the request
// is refused before its first token.
void check_pool(const RunOptions& options, int tokens);

}  // namespace specdec
