#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "common/base/json_value.h"
#include "common/llama_model.h"
#include "stages/06_batched_verification/batch_request.h"
#include "stages/programs/run/options.h"
#include "stages/programs/speculation/draft_setup.h"

namespace specdec {

// The sizes of an engine.
struct BatchSizes {
  int spec_length = 0;     // the largest K
  Capacity capacity = {};  // of a round with this K, with the requests and pages of a batch
  int token_budget = 0;
  int pages = 0;                // of the target's pool, or regions of a contiguous cache
  bool draft_is_model = false;  // the drafter has a cache
  std::size_t available = 0;    // free bytes of the machine before any allocation; 0: unknown
};

// The sizes that the options ask for: --max-batch requests at a time, each with K <= --spec-length
// and <= --max-context positions (else max_seq_len). By default, the token budget covers a batch of
// rounds and some prompt tokens, and the pools cover --max-batch contexts.
BatchSizes batch_sizes(const RunOptions& options, int max_seq_len,
                       const RoundCapacity& capacity = Capacity::of_chain);

// The options, with sizes for requests that are known in advance: the largest K that
// --token-budget allows, the longest context and, unless the options say otherwise, pages for the
// longest max_batch requests at the same time. most: what a request caches; none: as in rounds of
// one text.
RunOptions sized_for(std::span<const BatchRequest> requests, RunOptions options,
                     const RoundCapacity& capacity = Capacity::of_chain,
                     const std::function<MostCached(const BatchRequest&)>& most = {});

// The default token budget for passes that have up to this many rows of rounds.
int token_budget_for(int rows);

// The bytes of the activations of a pass over this many rows.
std::size_t activations(const LlamaConfig& config, int rows);

// The memory of an engine in bytes, before the first request. Omits what is small: norms, lists of
// rows, one judge's working memory.
struct MemoryPlan {
  std::size_t target_weights = 0, draft_weights = 0;
  std::size_t target_cache = 0, draft_cache = 0;
  std::size_t target_rows = 0;                                 // that are kept for heads
  std::size_t logits = 0, distributions = 0, activations = 0;  // scratch
  BatchSizes sizes;
  int page_size = 0;    // of the target's cache
  int longest_fit = 0;  // how many of the longest requests fit at a time

  std::size_t total() const {
    return target_weights + draft_weights + target_cache + draft_cache + target_rows + logits +
           distributions + activations;
  }
  std::string to_text() const;  // a few lines
  Json to_json() const;
};

// draft: the draft model, which may be the target; null if the drafter is not a Llama model. heads:
// the memory of heads, if they draft.
MemoryPlan memory_plan(const RunOptions& options, const BatchSizes& sizes, const LlamaModel& target,
                       const LlamaModel* draft, const HeadsMemory& heads = {});

// Adds a draft model that drafts beside the first one, with a cache of the same size.
void add_beside(MemoryPlan& plan, const RunOptions& options, const LlamaModel& draft);

}  // namespace specdec
