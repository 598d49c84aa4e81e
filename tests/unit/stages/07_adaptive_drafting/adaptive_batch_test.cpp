// Every drafter and every policy of stage 7 in the engine of stage 6: each request gets the tokens
// that it gets alone, whoever else is there and whatever is preempted.
#include <set>

#include "tests/unit/stages/06_batched_verification/batch_engine_fixture.h"
#include "tests/unit/stages/07_adaptive_drafting/named_drafters.h"

namespace specdec::law {
namespace {

constexpr int kLargest = 4;

// The models of one run: a target in a paged cache, a draft, and what may stand below the draft.
struct Models {
  explicit Models(const NamedDrafter& named, int pages)
      : backend(make_plain_backend()),
        cache(make_token_cache(*backend, {pages, 3})),
        target(*cache, Tables::kVocab, Tables::get().target->row_of(), 60),
        draft(Tables::kVocab, Tables::get().draft->row_of(), 60),
        lowest(Tables::kVocab, Tables::get().target->row_of(), 60),
        drafter(named.make(draft, lowest)) {}

  std::unique_ptr<Backend> backend;
  std::unique_ptr<KvCache> cache;
  PagedTableModel target;
  TableModel draft, lowest;
  std::shared_ptr<Drafter> drafter;
};

// fill: the target's likely tokens that are noted for each place.
std::vector<TokenId> alone(const BatchRequest& request, const NamedDrafter& named, int fill = 0) {
  Models models(named, 64);
  auto policy = request.make_policy ? request.make_policy() : fixed_spec_length(0);
  const int largest = policy->largest();
  DraftAndVerify steps(models.target, *models.drafter, std::move(policy), 60,
                       Drafts(largest, Tables::kVocab));
  Dice dice(request.seed);
  const auto judge = make_judge(steps, dice, request.speculation);
  take_notes(*judge, request.generation.prompt, fill);
  Generation generation(request.generation, nullptr);
  std::vector<TokenId> context = request.generation.prompt;
  steps.prefill(context);
  while (!generation.finished()) adaptive_round(steps, *judge, context, generation);
  return {generation.tokens().begin(), generation.tokens().end()};
}

struct BatchRun {
  std::vector<std::vector<TokenId>> texts;
  EngineStats stats;
};

BatchRun together(const std::vector<BatchRequest>& requests, const NamedDrafter& named, int pages,
                  int fill = 0) {
  Models models(named, pages);
  BatchEngine engine({.target = models.target,
                      .target_cache = *models.cache,
                      .drafter = *models.drafter,
                      .judging = fill > 0 ? with_notes({}, *models.backend, fill) : Judging{}},
                     {.max_batch = 3,
                      .spec_length = kLargest,
                      .token_budget = 20,
                      .prefill_chunk = 5,
                      .check_invariants = true});
  std::vector<RequestId> ids;
  for (const BatchRequest& request : requests) ids.push_back(engine.add_request(request));
  for (int step = 0; !engine.idle() && step < 2000; step++) engine.step();
  BatchRun run{.texts = {}, .stats = engine.stats()};
  for (const RequestId id : ids) run.texts.push_back(engine.take_result(id).tokens);
  return run;
}

std::vector<BatchRequest> requests_with(const NamedPolicy& policy) {
  std::vector<BatchRequest> requests = mixed_requests();
  for (BatchRequest& request : requests) {
    if (request.spec_length == 0) continue;
    request.spec_length = kLargest;
    request.make_policy = policy.make;
  }
  return requests;
}

TEST(AdaptiveBatchTest, EveryRequestIsAsAlone) {
  std::int64_t preemptions = 0;
  for (const NamedDrafter& drafter : drafters()) {
    for (const NamedPolicy& policy : policies(kLargest)) {
      SCOPED_TRACE(drafter.name + ", " + policy.name);
      const std::vector<BatchRequest> requests = requests_with(policy);
      const BatchRun run = together(requests, drafter, 16);
      for (std::size_t i = 0; i < requests.size(); i++) {
        EXPECT_EQ(run.texts[i], alone(requests[i], drafter)) << "request " << i;
      }
      preemptions += run.stats.preemptions;
    }
  }
  EXPECT_GT(preemptions, 50) << "most of the runs have too few pages for all at once";
}

// What the target found likely belongs to the request: it outlives a preemption, and no other
// request sees it.
TEST(AdaptiveBatchTest, EveryRequestIsAsAloneWithTheTargetsLikelyTokens) {
  std::int64_t preemptions = 0, with_fill = 0, without = 0;
  for (const NamedDrafter& drafter : drafters()) {
    if (!drafter.name.starts_with("n-grams")) continue;
    SCOPED_TRACE(drafter.name);
    const std::vector<BatchRequest> requests = requests_with(policies(kLargest)[0]);
    const BatchRun run = together(requests, drafter, 16, 2);
    for (std::size_t i = 0; i < requests.size(); i++) {
      EXPECT_EQ(run.texts[i], alone(requests[i], drafter, 2)) << "request " << i;
    }
    preemptions += run.stats.preemptions;
    with_fill += run.stats.rounds;
    without += together(requests, drafter, 16).stats.rounds;
  }
  EXPECT_GT(preemptions, 3);
  EXPECT_NE(with_fill, without) << "it changes what is drafted";
}

// The policies differ in what they draft, or the test above would compare nothing with nothing.
TEST(AdaptiveBatchTest, PoliciesDraftDifferently) {
  std::set<double> emitted_per_round;
  for (const NamedPolicy& policy : policies(kLargest)) {
    const EngineStats stats = together(requests_with(policy), drafters()[0], 64).stats;
    emitted_per_round.insert(static_cast<double>(stats.emitted) /
                             static_cast<double>(stats.rounds));
  }
  EXPECT_GE(emitted_per_round.size(), 5u);
}

}  // namespace
}  // namespace specdec::law
