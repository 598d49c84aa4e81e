// Rounds of greedy speculation allocate nothing: memory is taken when models, caches and drafters
// are made.
#include <new>

#include "common/run_stats.h"
#include "common/speculation/count_round.h"
#include "tests/policy.h"
#include "tests/speculation_fixture.h"
#include "tests/unit/allocation_counter.h"

namespace specdec {
namespace {

class GreedyAllocationTest : public ::testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(GreedyAllocationTest, RoundsAllocateNothing) {
  const auto [page_size, adapts] = GetParam();
  constexpr int kNewTokens = 150, K = 5;
  const LoadedModel target("target"), draft("draft");
  const Asked request = ids_request({3840, 100, 200, 300}, kNewTokens);
  SpeculationPair pair(target.model, draft.model, page_size, 4 + kNewTokens + K);

  Generation generation(request, request.tokenizer_or_null());
  const std::vector<double> costs = {1, 1.3, 1.55, 1.8, 2.1, 2.4};
  DraftAndVerify steps(pair.target.llama, pair.drafter,
                       policy_of(K, adapts ? costs : std::vector<double>()), 2048, Drafts(K, 0));
  std::vector<TokenId> context = request.prompt;
  context.reserve(4 + kNewTokens + K);
  RunStats stats;
  for (auto* list : {&stats.accepted_at, &stats.drafted_at, &stats.rounds_by_drafted}) {
    list->reserve(K + 1);  // as a session does
  }
  steps.prefill(context);

  std::size_t before = allocations();
  Round round = greedy_round(steps, context, generation);
  EXPECT_EQ(allocations() - before, 0u) << "the first round, with the draft's lazy prefill";
  count_round(stats, round);
  while (!generation.finished()) {
    round = greedy_round(steps, context, generation);
    count_round(stats, round);
  }
  EXPECT_EQ(allocations() - before, 0u);
  EXPECT_GT(stats.accepted, 0);
  EXPECT_LT(stats.accepted, stats.tested);
  ::operator delete(::operator new(1));  // the counter counts
  EXPECT_GT(allocations(), before);
}

INSTANTIATE_TEST_SUITE_P(PageSizes, GreedyAllocationTest,
                         ::testing::Combine(::testing::Values(kNoPages, 1, 3, 16),
                                            ::testing::Bool()));

}  // namespace
}  // namespace specdec
