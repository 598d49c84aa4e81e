#pragma once
#include <vector>

#include "stages/programs/batch/memory_plan.h"
#include "tests/unit/stages/06_batched_verification/batch_engine_fixture.h"

namespace specdec {

// A request of `prompt` tokens, with room for max_new_tokens after them.
inline BatchRequest request_of(int prompt, int max_new_tokens, int K, int context_limit = 1000) {
  BatchRequest request = greedy_request(some_prompt(prompt, prompt), max_new_tokens, K);
  request.context_limit = context_limit;
  return request;
}

inline RunOptions with_pages_of(int page_size, int draft_page_size) {
  RunOptions options;
  options.page_size = page_size;
  options.draft_page_size = draft_page_size;
  return options;
}

inline BatchSizes sizes_for(const RunOptions& options, const std::vector<BatchRequest>& requests) {
  return batch_sizes(sized_for(requests, options), 1000);
}

}  // namespace specdec
