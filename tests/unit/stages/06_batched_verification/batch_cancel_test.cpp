// Cancelling requests at any time, and engines that are destroyed at any time.
#include "tests/unit/stages/06_batched_verification/batch_engine_fixture.h"

namespace specdec {
namespace {

// Two at a time, prompts in chunks of four: so there are requests in every phase.
BatchSetup two_at_a_time() {
  BatchSetup setup;
  setup.options.max_batch = 2;
  setup.options.prefill_chunk = 4;
  setup.options.token_budget = 14;
  return setup;
}

const RequestState& state_of(const BatchEngine& engine, RequestId id) {
  for (const RequestState* state : engine.requests()) {
    if (state->id == id) return *state;
  }
  throw std::logic_error("no such request");
}

void expect_cancelled(TestBatch& batch, const Results& results, RequestId id) {
  EXPECT_EQ(finish_reason_name(results.at(id).finish_reason), "cancelled");
  EXPECT_EQ(results.at(id).error, "");
  const Heard& heard = batch.heard[id];
  EXPECT_EQ(heard.finals, 1);
  EXPECT_EQ(heard.finish_reason, FinishReason::kCancelled);
  EXPECT_LE(heard.tokens.size(), results.at(id).tokens.size());
  EXPECT_TRUE(std::equal(heard.tokens.begin(), heard.tokens.end(), results.at(id).tokens.begin()));
}

// Request `id` is cancelled before step n + 1.
void expect_cancelled_after(int n, RequestId id, std::set<Phase>& phases) {
  SCOPED_TRACE(fmt::format("request {} after {} steps", id, n));
  const Results want = undisturbed(mixed_requests());
  TestBatch batch(two_at_a_time());
  for (const BatchRequest& request : mixed_requests()) batch.add(request);
  for (int step = 0; step < n && !batch.engine().idle(); step++) batch.engine().step();
  if (batch.engine().has_result(id)) {
    EXPECT_FALSE(batch.engine().cancel(id)) << "it is finished";
    expect_same_outputs(batch.run_all(), want);
    return;
  }
  phases.insert(state_of(batch.engine(), id).phase);
  const std::size_t heard = batch.heard[id].tokens.size();
  EXPECT_TRUE(batch.engine().cancel(id));
  EXPECT_TRUE(batch.engine().cancel(id)) << "twice is not an error";
  const StepReport& report = batch.engine().step();
  EXPECT_THAT(report.finished, ::testing::Contains(id)) << "the next step gives it back";
  EXPECT_FALSE(batch.engine().cancel(id));
  const Results results = batch.run_all();
  expect_cancelled(batch, results, id);
  EXPECT_EQ(batch.heard[id].tokens.size(), heard) << "no token after cancel()";
  expect_same_outputs(results, want, {id});
  batch.expect_no_leak();
}

TEST(BatchCancelTest, ARequestCanBeCancelledInEveryPhase) {
  std::set<Phase> phases;
  for (int n = 0; n < 24; n++) {
    for (RequestId id = 0; id < 6; id++) expect_cancelled_after(n, id, phases);
  }
  EXPECT_EQ(phases.size(), 3u) << "waiting, prefilling, running";
}

TEST(BatchCancelTest, NobodyElseCanBeCancelled) {
  TestBatch batch;
  batch.add(greedy_request({1}, 3));
  EXPECT_FALSE(batch.engine().cancel(-1));
  EXPECT_FALSE(batch.engine().cancel(1));
  expect_same_outputs(batch.run_all(), undisturbed({greedy_request({1}, 3)}));
}

TEST(BatchCancelTest, ACallbackMayCancelItsOwnRequest) {
  TestBatch batch;
  int deliveries = 0;
  batch.add(sampled_request({1}, 30), [&](const Delivery& delivery) {
    if (++deliveries == 2) {
      EXPECT_TRUE(batch.engine().cancel(delivery.id));
    }
  });
  batch.add(sampled_request({1}, 30));
  const Results results = batch.run_all();
  expect_cancelled(batch, results, 0);
  EXPECT_EQ(deliveries, 3);
  expect_same_outputs(results, undisturbed({sampled_request({1}, 30), sampled_request({1}, 30)}),
                      {0});
}

// The victim's tokens of the very step are there, and not delivered if it is the younger one.
TEST(BatchCancelTest, ACallbackMayCancelAnyOtherRequestInTheSameStep) {
  const std::vector<BatchRequest> requests(3, sampled_request({1}, 30));
  for (const RequestId who : {0, 2}) {
    const RequestId victim = 2 - who;
    SCOPED_TRACE(fmt::format("request {} cancels {}", who, victim));
    TestBatch batch;
    int deliveries = 0;
    std::size_t heard = 0;
    for (const BatchRequest& request : requests) {
      batch.add(request, [&, who, victim](const Delivery& delivery) {
        if (delivery.id != who || ++deliveries != 2) return;
        heard = batch.heard[victim].tokens.size();
        EXPECT_TRUE(batch.engine().cancel(victim));
      });
    }
    const Results results = batch.run_all();
    EXPECT_EQ(batch.heard[victim].tokens.size(), heard) << "no token after cancel()";
    expect_cancelled(batch, results, victim);
    expect_same_outputs(results, undisturbed(requests), {victim});
    batch.expect_no_leak();
  }
}

TEST(BatchCancelTest, WhoFinishesInTheSameStepIsTooLateToCancel) {
  TestBatch batch;
  batch.add(greedy_request({1}, 1), [&](const Delivery& delivery) {
    EXPECT_TRUE(delivery.finished);
    EXPECT_FALSE(batch.engine().cancel(0)) << "itself";
    EXPECT_FALSE(batch.engine().cancel(1)) << "not delivered yet, but finished";
  });
  batch.add(greedy_request({1}, 1));
  const Results results = batch.run_all();
  expect_same_outputs(results, undisturbed({greedy_request({1}, 1), greedy_request({1}, 1)}));
  EXPECT_EQ(batch.heard[1].tokens.size(), 1u);
}

TEST(BatchCancelTest, AFinalCallbackThatThrowsTurnsACancellationIntoAnError) {
  TestBatch batch;
  batch.add(greedy_request({1}, 9), [](const Delivery& delivery) {
    if (delivery.finished) throw std::runtime_error("no");
  });
  batch.engine().step();
  batch.engine().cancel(0);
  const Results results = batch.run_all();
  EXPECT_EQ(finish_reason_name(results.at(0).finish_reason), "error");
  EXPECT_EQ(results.at(0).error, "its callback threw: no");
}

TEST(BatchCancelTest, AnEngineThatIsDestroyedLeaksNoPage) {
  for (int n = 0; n < 24; n++) {
    SCOPED_TRACE(n);
    TestBatch batch(two_at_a_time());
    for (const BatchRequest& request : mixed_requests()) batch.add(request);
    for (int step = 0; step < n && !batch.engine().idle(); step++) batch.engine().step();
    batch.destroy_engine();
    for (const auto* cache : {&batch.target_cache, &batch.draft_cache}) {
      const auto& paged = dynamic_cast<const PagedKvCache&>(**cache);
      EXPECT_EQ(paged.allocator().n_used(), 0);
      EXPECT_TRUE(paged.sequences().empty());
    }
  }
}

}  // namespace
}  // namespace specdec
