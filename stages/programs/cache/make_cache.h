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

// What --kv-dtype, --cache, --page-size and --pages ask for; without --pages, enough for one
// sequence of so many positions.
CacheLayout cache_layout(const RunOptions& options, int positions);

// Throws Error when there is not enough memory, with the numbers.
std::unique_ptr<KvCache> make_cache(const LlamaModel& model, const CacheLayout& layout);

// Throws Error where --pages gives too few for a request that caches `tokens` tokens: it is refused
// before the first token.
void check_pool(const RunOptions& options, int tokens);

}  // namespace specdec
