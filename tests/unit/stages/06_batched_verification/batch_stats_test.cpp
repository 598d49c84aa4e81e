// Times by a clock that the test moves, and counts.
#include "tests/unit/stages/06_batched_verification/batch_engine_fixture.h"

namespace specdec {
namespace {

// A clock that a second passes on with every look, or that stands still.
struct FakeClock {
  double seconds = 0, tick = 0;

  std::function<double()> reading() {
    return [this] { return seconds += tick; };
  }
};

// Everything is accepted, K = 1: two tokens per round.
BatchSetup agreeing(FakeClock& clock) {
  BatchSetup setup;
  setup.target_rows = setup.draft_rows = always(2);
  setup.options.clock = clock.reading();
  return setup;
}

TEST(BatchStatsTest, TimesOfARequest) {
  FakeClock clock;
  BatchSetup setup = agreeing(clock);
  setup.options.prefill_chunk = 4;
  TestBatch batch(setup);
  clock.seconds = 10;
  batch.add(greedy_request(some_prompt(9), 6, 1));  // two chunks, three rounds
  for (const double seconds : {11, 13, 16, 20, 29}) {
    clock.seconds = seconds;
    batch.engine().step();
  }
  ASSERT_TRUE(batch.engine().idle());
  const RequestStats stats = batch.engine().take_result(0).stats;
  EXPECT_EQ(stats.arrived, 10);
  EXPECT_EQ(stats.admitted, 11);
  EXPECT_EQ(stats.first_round, 16);
  EXPECT_EQ(stats.first_token, 16);
  EXPECT_EQ(stats.last_token, 29);
  EXPECT_EQ(stats.finished, 29);
  EXPECT_EQ(stats.time_to_first_token(), 6);
  EXPECT_DOUBLE_EQ(stats.time_per_output_token(), 13. / 5);
  EXPECT_EQ(stats.longest_gap, 9);
  EXPECT_EQ(stats.run.prefill_seconds, 5);
  EXPECT_EQ(stats.run.decode_seconds, 13);
  EXPECT_EQ(stats.steps, 5);
  EXPECT_EQ(stats.preemptions, 0);
}

TEST(BatchStatsTest, ATimeThatNeverCameIsNoNumber) {
  FakeClock clock;
  TestBatch batch(agreeing(clock));
  batch.add(greedy_request({1}, 5));
  batch.engine().cancel(0);
  clock.seconds = 3;
  const RequestStats cancelled = batch.run_all().at(0).stats;
  EXPECT_TRUE(std::isnan(cancelled.admitted));
  EXPECT_TRUE(std::isnan(cancelled.time_to_first_token()));
  EXPECT_TRUE(std::isnan(cancelled.time_per_output_token()));
  EXPECT_EQ(cancelled.finished, 3);

  batch.add(greedy_request({1}, 1));
  const RequestStats one_token = batch.run_all().at(1).stats;
  EXPECT_EQ(one_token.time_to_first_token(), 0);
  EXPECT_TRUE(std::isnan(one_token.time_per_output_token()));
}

TEST(BatchStatsTest, WhoComesBackWasAdmittedWhenItFirstWas) {
  FakeClock clock;
  BatchSetup setup = agreeing(clock);
  setup.target = {10, 3};  // two texts of 22 tokens need sixteen
  TestBatch batch(setup);
  for (int i = 0; i < 2; i++) batch.add(greedy_request(some_prompt(7), 22, 0));
  double returned = 0;
  for (clock.seconds = 1; !batch.engine().idle(); clock.seconds++) {
    const StepReport& report = batch.engine().step();
    if (!report.admitted.empty()) returned = report.started;
  }
  EXPECT_GT(returned, 10);
  const Results results = batch.take_results();
  ASSERT_GT(results.at(1).stats.preemptions, 0);
  for (const auto& [id, result] : results) {
    SCOPED_TRACE(fmt::format("request {}", id));
    const RequestStats& stats = result.stats;
    EXPECT_EQ(stats.admitted, 1);
    EXPECT_EQ(stats.prefix_tokens, 0) << "what it finds later is its own prompt";
    EXPECT_EQ(stats.first_round, 2);
    EXPECT_EQ(stats.run.prefill_seconds, 1);
    EXPECT_EQ(stats.run.decode_seconds, stats.finished - 2);
  }
  EXPECT_GT(batch.engine().stats().prefix_tokens, 0);
}

TEST(BatchStatsTest, ARequestMayHaveArrivedEarlier) {
  FakeClock clock;
  TestBatch batch(agreeing(clock));
  clock.seconds = 5;
  BatchRequest request = greedy_request({1}, 1);
  request.arrival = 2;
  batch.engine().add_request(request);
  batch.engine().step();
  EXPECT_EQ(batch.engine().take_result(0).stats.time_to_first_token(), 3);
}

TEST(BatchStatsTest, PhasesOfAStepAreTimedByBatchSize) {
  FakeClock clock;
  BatchSetup setup = agreeing(clock);
  TestBatch batch(setup);
  for (int i = 0; i < 3; i++) batch.add(greedy_request({1}, 4, 1));
  clock.tick = 1;  // from now on every look: start, drafted, verified, end
  batch.engine().step();
  const auto& three = batch.engine().stats().by_batch_size[3];
  EXPECT_EQ(three.steps, 1);
  EXPECT_EQ(three.rows, 6);
  EXPECT_EQ(three.emitted, 6);
  EXPECT_EQ(three.seconds, 3);
  EXPECT_EQ(three.draft_seconds, 1);
  EXPECT_EQ(three.verify_seconds, 1);
  clock.tick = 0;
  const RequestStats stats = batch.run_all().at(0).stats;
  EXPECT_EQ(stats.admitted, 1);
  EXPECT_EQ(stats.first_token, 4) << "when the step ended";
}

TEST(BatchStatsTest, AStepWithAPrefillIsOfNoBatchSize) {
  FakeClock clock;
  TestBatch batch(agreeing(clock));
  batch.add(greedy_request({1}, 8, 1));
  batch.add(greedy_request(some_prompt(9), 8, 1));
  batch.engine().step();  // a round and a prefill
  for (const auto& size : batch.engine().stats().by_batch_size) EXPECT_EQ(size.steps, 0);
  batch.engine().step();
  EXPECT_EQ(batch.engine().stats().by_batch_size[2].steps, 1);
}

TEST(BatchStatsTest, CountsAddUp) {
  BatchSetup setup;
  setup.target = {16, 3};
  TestBatch batch(setup);
  for (const BatchRequest& request : mixed_requests()) batch.add(request);
  std::int64_t rounds = 0, rows = 0, emitted = 0, preempted = 0, prefilled = 0;
  int peak_rounds = 0, peak_waiting = 0;
  while (!batch.engine().idle()) {
    const StepReport& report = batch.engine().step();
    rounds += report.rounds();
    rows += report.rows();
    emitted += report.emitted();
    preempted += std::ssize(report.preempted);
    for (const StepReport::Part& part : report.parts) prefilled += part.prefilled;
    peak_rounds = std::max(peak_rounds, report.rounds());
    peak_waiting = std::max(peak_waiting, report.waiting);
  }
  const EngineStats& stats = batch.engine().stats();
  const Results results = batch.take_results();
  std::int64_t of_requests = 0, rounds_of_requests = 0, preemptions = 0;
  for (const auto& [id, result] : results) {
    EXPECT_EQ(result.stats.run.emitted, std::ssize(result.tokens)) << id;
    of_requests += std::ssize(result.tokens);
    rounds_of_requests += result.stats.run.rounds;
    preemptions += result.stats.preemptions;
  }
  EXPECT_EQ(stats.emitted, of_requests);
  EXPECT_EQ(stats.emitted, emitted);
  EXPECT_EQ(stats.rounds, rounds);
  EXPECT_EQ(stats.rounds, rounds_of_requests);
  EXPECT_EQ(stats.prefill_rows, prefilled);
  EXPECT_EQ(stats.prefill_rows + stats.round_rows, rows);
  EXPECT_EQ(stats.round_rows, batch.target.rows()) << "logits of rounds only";
  EXPECT_EQ(stats.target_forwards, batch.target.forwards());
  EXPECT_EQ(stats.preemptions, preempted);
  EXPECT_EQ(stats.preemptions, preemptions);
  EXPECT_GT(preemptions, 0) << "the pool is tight";
  EXPECT_EQ(stats.admissions, 6 + preemptions);
  EXPECT_EQ(stats.peak_rounds, peak_rounds);
  EXPECT_EQ(stats.peak_waiting, peak_waiting);
  EXPECT_EQ(stats.steps_given_up, 0);
}

// Rows of no numbers for the requests that begin with this token.
constexpr TokenId kBroken = 5;
TableModel::RowOf broken(const TableModel::RowOf& rows) {
  static const std::vector<float> nan(Tables::kVocab, std::nanf(""));
  return [=](std::span<const TokenId> prefix) {
    return prefix.front() == kBroken ? std::span<const float>(nan) : rows(prefix);
  };
}

// One request is broken; the other one has two rounds of three drafts that are right.
EngineStats stats_beside_a_broken_one(const BatchSetup& setup, RequestStats* of_broken) {
  TestBatch batch(setup);
  batch.add(greedy_request({kBroken}, 8, 3));
  batch.add(greedy_request({1}, 8, 3));
  const StepReport first = batch.engine().step();
  EXPECT_EQ(first.finished, std::vector<RequestId>{0});
  const Results results = batch.run_all();
  EXPECT_EQ(finish_reason_name(results.at(0).finish_reason), "error");
  EXPECT_EQ(results.at(1).tokens.size(), 8u);
  EXPECT_EQ(results.at(1).stats.run.target_rows, 8);
  EXPECT_EQ(results.at(1).stats.steps, 2);
  *of_broken = results.at(0).stats;
  const EngineStats& stats = batch.engine().stats();
  EXPECT_EQ(stats.emitted, 8);
  EXPECT_EQ(stats.target_forwards, batch.target.forwards());
  EXPECT_EQ(stats.round_rows, batch.target.rows());
  EXPECT_EQ(first.rows(), stats.round_rows - 4) << "the second step has one round";
  EXPECT_EQ(first.rounds(), stats.peak_rounds);
  return stats;
}

TEST(BatchStatsTest, ARequestThatCannotBeDraftedForHasNoRound) {
  FakeClock clock;
  BatchSetup setup = agreeing(clock);
  setup.draft_rows = broken(setup.draft_rows);
  RequestStats of_broken;
  const EngineStats stats = stats_beside_a_broken_one(setup, &of_broken);
  EXPECT_EQ(stats.rounds, 2);
  EXPECT_EQ(stats.round_rows, 8);
  EXPECT_EQ(stats.target_forwards, 2);
  EXPECT_EQ(stats.peak_rounds, 1);
  EXPECT_EQ(stats.by_batch_size[1].steps, 2);
  EXPECT_EQ(of_broken.run.rounds, 0);
  EXPECT_EQ(of_broken.run.target_rows, 0);
  EXPECT_EQ(of_broken.run.draft_forwards, 0);
  EXPECT_EQ(of_broken.steps, 0);
  EXPECT_TRUE(std::isnan(of_broken.first_round));
}

TEST(BatchStatsTest, ARequestThatCannotBeJudgedHadItsRows) {
  FakeClock clock;
  BatchSetup setup = agreeing(clock);
  setup.target_rows = broken(setup.target_rows);
  RequestStats of_broken;
  const EngineStats stats = stats_beside_a_broken_one(setup, &of_broken);
  EXPECT_EQ(stats.rounds, 3);
  EXPECT_EQ(stats.round_rows, 12);
  EXPECT_EQ(stats.target_forwards, 2);
  EXPECT_EQ(stats.peak_rounds, 2);
  EXPECT_EQ(of_broken.run.target_rows, 4);
  EXPECT_EQ(of_broken.steps, 1);
}

TEST(BatchStatsTest, AStepWithoutAPassCountsNone) {
  FakeClock clock;
  BatchSetup setup = agreeing(clock);
  setup.draft_rows = broken(setup.draft_rows);
  TestBatch batch(setup);
  batch.add(greedy_request({kBroken}, 8, 3));
  EXPECT_EQ(batch.engine().step().parts.size(), 0u);
  EXPECT_TRUE(batch.engine().idle());
  EXPECT_EQ(batch.target.forwards(), 0);
  const EngineStats& stats = batch.engine().stats();
  EXPECT_EQ(stats.steps, 1);
  EXPECT_EQ(stats.target_forwards, 0);
  EXPECT_EQ(stats.rounds, 0);
  EXPECT_EQ(stats.round_rows, 0);
}

TEST(BatchStatsTest, PrefixesAreCounted) {
  TestBatch batch;
  batch.add(greedy_request(some_prompt(11), 3));
  batch.run();
  batch.add(greedy_request(some_prompt(11), 3));  // three full pages of three before the last token
  batch.run();
  const Results results = batch.take_results();
  EXPECT_EQ(results.at(0).stats.prefix_tokens, 0);
  EXPECT_EQ(results.at(1).stats.prefix_tokens, 9);
  const EngineStats& stats = batch.engine().stats();
  EXPECT_EQ(stats.admissions, 2);
  EXPECT_EQ(stats.admissions_with_prefix, 1);
  EXPECT_EQ(stats.prompt_tokens, 22);
  EXPECT_EQ(stats.prefix_tokens, 9);
  EXPECT_EQ(stats.prefill_rows, 10 + 1);
  EXPECT_EQ(batch.engine().draft_pool().prefixes()->stats().hits, 1) << "the draft has its own";
}

// Not even of a request that comes back, whose whole text is computed as a prompt is.
TEST(BatchStatsTest, PrefixCachesHoldPromptsAndNeverWhatWasGenerated) {
  BatchSetup setup;
  setup.target = setup.draft = {13, 3};
  TestBatch batch(setup);
  const std::vector<std::vector<TokenId>> prompts = {{0, 1, 2, 3, 4, 5, 0}, {1, 1, 1, 2, 2, 2, 3}};
  for (const std::vector<TokenId>& prompt : prompts) batch.add(sampled_request(prompt, 22, 3));
  int found_again = 0;
  while (!batch.engine().idle()) {
    batch.engine().step();
    for (const KvPool* pool : {&batch.engine().target_pool(), &batch.engine().draft_pool()}) {
      for (RequestId id = 0; id < 2; id++) {
        std::vector<TokenId> text = prompts[static_cast<std::size_t>(id)];
        const std::vector<TokenId>& generated = batch.heard[id].tokens;
        text.insert(text.end(), generated.begin(), generated.end());
        ASSERT_LE(pool->prefixes()->match_length(text), 6) << "two of its pages are full of prompt";
        found_again += generated.size() > 3 && pool->prefixes()->match_length(text) == 6 ? 1 : 0;
      }
      EXPECT_LE(pool->prefixes()->pages(), 4);
    }
  }
  EXPECT_GT(found_again, 10);
  EXPECT_GT(batch.engine().stats().preemptions, 0);
  EXPECT_GT(batch.take_results().at(1).stats.run.rounds, 0);
}

TEST(BatchStatsTest, WithoutAPrefixCacheNothingIsFoundOrKept) {
  BatchSetup setup;
  setup.options.prefix_cache = false;
  TestBatch batch(setup);
  for (int i = 0; i < 2; i++) {
    batch.add(greedy_request(some_prompt(11), 3));
    batch.run();
    EXPECT_EQ(batch.engine().target_pool().n_used(), 0);
  }
  EXPECT_EQ(batch.engine().stats().prefix_tokens, 0);
}

}  // namespace
}  // namespace specdec
