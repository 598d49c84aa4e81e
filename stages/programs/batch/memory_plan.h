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
  int max_batch = 0;
  int spec_length = 0;  // the largest K
  Capacity round = {};  // of such a request
  int token_budget = 0;
  std::int64_t longest = 0;  // tokens cached for the longest request, drafts included
  int pages = 0;             // of the target's pool, or regions of a contiguous cache
  int draft_pages = 0;
  bool draft_is_model = false;  // the drafter has a cache
};

// What the options ask for; where they say nothing, enough for the requests: for all rounds of a
// batch and some prompt tokens in one pass, and for the longest max_batch requests side by side.
BatchSizes batch_sizes(const RunOptions& options, std::span<const BatchRequest> requests,
                       const RoundCapacity& capacity = Capacity::of_chain);

// What lies where in memory, before the requests begin; without what is small: norms, lists of
// rows, the working memory of one judgement.
struct MemoryPlan {
  std::size_t target_weights = 0, draft_weights = 0;
  std::size_t target_cache = 0, draft_cache = 0;
  std::size_t logits = 0, distributions = 0, activations = 0;  // scratch
  std::size_t available = 0;  // of the machine, before the caches are made; 0: unknown
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
