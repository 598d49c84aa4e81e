#pragma once
#include <algorithm>
#include <random>
#include <vector>

#include "tests/batch_tables.h"

// Random workloads on tables, for stage 6's promise: whatever else is in a batch, whenever a
// request comes and whatever it loses on the way, it gets the tokens that it would have got alone,
// decided by the same logits, bit for bit.
namespace specdec::batch {

constexpr int V = 6;
constexpr int kTablePositions = 96;  // of the target

struct Workload {
  TableShape shape;
  std::vector<Arrival> arrivals;
};

inline std::vector<TokenId> random_beginning(std::mt19937& random) {
  return random_tokens(26, V, static_cast<unsigned>(random()));
}

// Most requests begin alike, and speculate with K up to this.
inline BatchRequest random_table_request(std::mt19937& random,
                                         const std::vector<TokenId>& beginning, int K) {
  BatchRequest request;
  GenerationRequest& g = request.generation;
  const auto shared =
      static_cast<std::ptrdiff_t>(one_in(random, 4) ? random() % 20 : 18 + random() % 8);
  g.prompt.assign(beginning.begin(), beginning.begin() + shared);
  for (int i = between(random, 1, 12); i > 0; i--) g.prompt.push_back(between(random, 0, V - 1));
  const auto prompt = static_cast<int>(g.prompt.size());
  g.max_new_tokens = between(random, 1, 36);
  if (one_in(random, 3)) g.eos_ids = {between(random, 0, V - 1)};
  request.speculation = random_speculation(random);
  request.seed = random();
  request.spec_length = one_in(random, 5) ? 0 : between(random, 1, K);
  request.context_limit = kTablePositions;
  if (one_in(random, 4)) {  // the end of the context is reached, with no room for all levels
    request.context_limit = prompt + g.max_new_tokens + between(random, 0, K);
  } else if (one_in(random, 6)) {
    g.max_new_tokens = kTablePositions - prompt;
  }
  return request;
}

// Pages for the largest request, and mostly for few more. capacity: of a round; it drafts by a
// model, or without one.
inline void choose_sizes(std::mt19937& random, Workload& workload, int K,
                         const RoundCapacity& capacity, bool has_draft_model) {
  TableShape& shape = workload.shape;
  const int page_sizes[] = {1, 3, 16};
  shape.page_size = one_in(random, 16) ? kNoPages : one_of(random, page_sizes);
  shape.draft_page_size = one_in(random, 16) ? kNoPages : one_of(random, page_sizes);
  shape.positions = kTablePositions;
  shape.draft_positions = one_in(random, 4) ? between(random, 20, 70) : 1 << 20;
  std::int64_t most = 1, most_drafted = 1;
  for (const Arrival& a : workload.arrivals) {
    const MostCached cached =
        most_cached(a.request, capacity, has_draft_model ? shape.draft_positions : 1 << 30);
    most = std::max(most, cached.by_target);
    most_drafted = std::max(most_drafted, cached.by_draft);
  }
  const auto pages = [&](std::int64_t tokens, int page_size) {
    if (page_size == kNoPages) return 0;
    const int least = pages_for(static_cast<int>(tokens), page_size);
    return least + between(random, 0, one_in(random, 6) ? 6 * least : least / 2);
  };
  shape.pages = pages(most, shape.page_size);
  shape.draft_pages = pages(most_drafted, shape.draft_page_size);
  const int B = between(random, 2, 8), rows = B * (capacity(K).verified + 1);
  shape.options.max_batch = B;
  shape.options.spec_length = K;
  shape.options.token_budget = rows + (one_in(random, 4) ? 0 : between(random, 1, 40));
  shape.options.prefill_chunk = one_in(random, 2) ? between(random, 1, 5) : 32;
}

// Serves random workloads, by serve(random, tables, prefix_cache), which says whether the workload
// preempted, was ragged and shared a prefix (where that is possible). Expects enough of these.
template <typename Serve>
void check_workloads(unsigned seed, int count, int enough, bool prefix_cache, Serve&& serve) {
  std::mt19937 random(seed);
  int counted = 0;
  for (int i = 0; i < count && !::testing::Test::HasFailure(); i++) {
    SCOPED_TRACE(::testing::Message() << "workload " << i << " of seed " << seed);
    const TablePair tables(V, one_of(random, {0.0, 0.2, 0.5, 1.0}), random);
    counted += serve(random, tables, prefix_cache) ? 1 : 0;
  }
  ::testing::Test::RecordProperty("counted", counted);
  EXPECT_GE(counted, enough) << "of " << count << " had everything";
}

inline bool had_everything(const BatchRun& run, bool prefix_cache) {
  return run.preempted() && run.was_ragged() && (!prefix_cache || run.shared_a_prefix());
}

}  // namespace specdec::batch
