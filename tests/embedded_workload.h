#pragma once
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/embedded_batch.h"

// Random workloads for the embedded pair. A way to draft and judge has:
//   int levels(random): K of an engine
//   RoundCapacity capacity: of a round
//   void adjust(BatchRequest&): leaves out what the way does not have
//   Outcome alone(request): of a run of its own
//   bool serve(sizes, arrivals, want): expects each request to get what it gets alone; whether the
//     engine preempted, was ragged and shared a prefix
namespace specdec::batch {

// How much memory an engine has. page_size kNoPages: stage 2's cache.
struct Sizes {
  int page_size = 16, draft_page_size = 16;
  int pages = 0, draft_pages = 0;  // 0: as many as max_batch requests may need
  EngineOptions options = {};
};

// What came up in workloads.
struct Seen {
  int greedy = 0, sampled = 0, stopped = 0;
};

// A pool for the largest request, and for some more.
inline int some_pages(std::mt19937& random, std::int64_t tokens, int page_size) {
  return pages_for(static_cast<int>(tokens), page_size) * between(random, 5, 7) / 4;
}

template <typename Way>
bool check_workload(std::mt19937& random, const Way& way, Seen& seen) {
  const int K = way.levels(random), B = between(random, 3, 6);
  const std::vector<TokenId> beginning = excerpt(random, 18);
  std::vector<Arrival> arrivals;
  std::vector<Outcome> want;
  std::int64_t most = 1, most_drafted = 1;
  for (int i = between(random, 6, full() ? 16 : 8); i > 0; i--) {
    BatchRequest request = random_request(random, beginning, K);
    way.adjust(request);
    want.push_back(way.alone(request));
    if (add_stop(random, request, want.back().text)) want.back() = way.alone(request);
    const bool is_greedy = request.speculation.sampling.temperature == 0;
    (is_greedy ? seen.greedy : seen.sampled)++;
    seen.stopped += request.generation.stop.empty() ? 0 : 1;
    const MostCached cached = most_cached(request, way.capacity, kPositions);
    most = std::max(most, cached.by_target);
    most_drafted = std::max(most_drafted, cached.by_draft);
    arrivals.push_back({.request = request});
  }
  random_times(random, arrivals);
  const int page_sizes[] = {1, 3, 16};
  Sizes sizes{.page_size = one_of(random, page_sizes),
              .draft_page_size = one_of(random, page_sizes)};
  sizes.pages = some_pages(random, most, sizes.page_size);
  sizes.draft_pages = some_pages(random, most_drafted, sizes.draft_page_size);
  sizes.options = {.max_batch = B,
                   .spec_length = K,
                   .token_budget = B * (way.capacity(K).verified + 1) + between(random, 0, 30),
                   .prefill_chunk = between(random, 3, 30),
                   .check_invariants = true};
  return way.serve(sizes, arrivals, want);
}

// Runs workloads until `wanted` of them have preempted, shared a prefix and been ragged.
template <typename Way>
void check_workloads(const Way& way, unsigned wanted) {
  Seen seen;
  unsigned counted = 0;
  for (unsigned i = 0; counted < wanted && i < 6 * wanted + 40; i++) {
    if (::testing::Test::HasFailure()) return;
    SCOPED_TRACE(::testing::Message() << "workload " << i);
    std::mt19937 random(i);
    counted += check_workload(random, way, seen) ? 1 : 0;
  }
  EXPECT_EQ(counted, wanted) << "that preempted, shared a prefix and were ragged";
  EXPECT_GT(seen.greedy, 0);
  EXPECT_GT(seen.sampled, 0);
  EXPECT_GT(seen.stopped, 0);
}

// Each request gets a stop text that begins before its last round and ends in it.
template <typename Way>
void check_stops_across_rounds(const Way& way, int K, double temperature) {
  std::mt19937 random(4);
  std::vector<Arrival> arrivals;
  std::vector<Outcome> want;
  int spanning = 0;
  for (int i = 0; i < 6; i++) {
    BatchRequest request = greedy_request(random, K);
    request.seed = static_cast<std::uint64_t>(i);
    request.speculation.sampling.temperature = temperature;
    request.speculation.draft_temperature = temperature;
    const std::string stop = text_across_rounds(way.alone(request));
    if (stop.empty()) continue;
    request.generation.stop = {stop};
    arrivals.push_back({.request = request});
    want.push_back(way.alone(request));
    EXPECT_EQ(want.back().finish_reason, FinishReason::kStop);
    EXPECT_EQ(want.back().text.find(stop), std::string::npos) << "nothing of it is delivered";
    spanning += ends_before_its_last_round(want.back()) ? 1 : 0;
  }
  EXPECT_GE(spanning, 3) << "begin before the last round, or nothing was tested";
  way.serve({.options = {.max_batch = 4,
                         .spec_length = K,
                         .token_budget = 4 * (way.capacity(K).verified + 1),
                         .check_invariants = true}},
            arrivals, want);
}

}  // namespace specdec::batch
