#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/base/json_value.h"
#include "common/llama_model.h"
#include "stages/06_batched_verification/batch_request.h"
#include "stages/programs/run/options.h"

namespace specdec {

// How large an engine is made.
struct BatchSizes {
  int spec_length = 0;     // the largest K
  Capacity capacity = {};  // of rounds with this K, and of all requests at a time
  int token_budget = 0;
  int pages = 0;                // of the target's pool, or regions of a contiguous cache
  bool draft_is_model = false;  // the drafter has a cache
  std::size_t available = 0;    // bytes of the machine, before anything is made; 0: unknown
};

// What the options ask for: --max-batch requests at a time, each with K up to --spec-length and up
// to --max-context positions, or the target's max_seq_len. Without --token-budget, all rounds of a
// batch and some prompt tokens fit in one pass; without --pages and --draft-pages, all texts do.
BatchSizes batch_sizes(const RunOptions& options, int max_seq_len,
                       const RoundCapacity& capacity = Capacity::of_chain);

// The options, with sizes for requests that are all known beforehand. K and the context are those
// of the largest requests, but no K that --token-budget does not allow. What the options leave open
// is enough: pages for the longest max_batch requests side by side.
RunOptions sized_for(std::span<const BatchRequest> requests, RunOptions options,
                     const RoundCapacity& capacity = Capacity::of_chain);

// What lies where in memory, before the requests begin; without what is small: norms, lists of
// rows, the working memory of one judgement.
struct MemoryPlan {
  std::size_t target_weights = 0, draft_weights = 0;
  std::size_t target_cache = 0, draft_cache = 0;
  std::size_t logits = 0, distributions = 0, activations = 0;  // scratch
  BatchSizes sizes;
  int page_size = 0;    // of the target's cache
  int longest_fit = 0;  // how many of the longest requests fit at a time

  std::size_t total() const {
    return target_weights + draft_weights + target_cache + draft_cache + logits + distributions +
           activations;
  }
  std::string to_text() const;  // some lines for people
  Json to_json() const;
};

// draft: the draft's weights, its own or the target's; null: the drafter is no Llama.
MemoryPlan memory_plan(const RunOptions& options, const BatchSizes& sizes, const LlamaModel& target,
                       const LlamaModel* draft);

}  // namespace specdec
