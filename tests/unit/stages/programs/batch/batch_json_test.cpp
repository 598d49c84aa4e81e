// What a run of many requests says in JSON, and the sums and quantiles in it.
#include "stages/programs/batch/batch_json.h"

#include <numeric>

#include "common/base/json_value.h"
#include "common/run_stats.h"
#include "stages/programs/show/report.h"
#include "tests/unit/stages/06_batched_verification/batch_engine_fixture.h"

namespace specdec {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;  // sorted
}

// The object has these fields, and perhaps more.
void expect_fields(const Json& object, const Json& fields) {
  for (const auto& [key, value] : fields.items()) EXPECT_EQ(object.at(key), value) << key;
}

// ---- numbers

TEST(BatchJsonTest, AQuantileIsTheSmallestValueThatTheShareDoesNotExceed) {
  std::vector<double> values(20);
  std::iota(values.rbegin(), values.rend(), 1.);  // 20, 19, ... 1
  EXPECT_EQ(quantile(values, 0), 1);
  EXPECT_EQ(quantile(values, 0.05), 1);
  EXPECT_EQ(quantile(values, 0.051), 2);
  EXPECT_EQ(quantile(values, 0.5), 10);
  EXPECT_EQ(quantile(values, 0.95), 19);
  EXPECT_EQ(quantile(values, 0.951), 20);
  EXPECT_EQ(quantile(values, 1), 20);
  EXPECT_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(quantile({3, 1, 2}, 0.95), 3);
  for (const double p : {0., 0.5, 1.}) EXPECT_EQ(quantile({7}, p), 7);
  EXPECT_TRUE(std::isnan(quantile({}, 0.5)));
}

TEST(BatchJsonTest, ADistributionIsOfTheNumbersAmongTheValues) {
  const Json some = distribution({4, kNaN, 1, 2, std::numeric_limits<double>::infinity(), 3});
  EXPECT_EQ(some, Json({{"mean", 2.5}, {"p50", 2.}, {"p95", 4.}, {"max", 4.}}));
  std::vector<double> values(20);
  std::iota(values.begin(), values.end(), 1.);
  EXPECT_EQ(distribution(values), Json({{"mean", 10.5}, {"p50", 10.}, {"p95", 19.}, {"max", 20.}}));
  EXPECT_EQ(distribution({-1, -2})["max"], -1);
  EXPECT_EQ(distribution({}), Json());
  EXPECT_EQ(distribution({kNaN, kNaN}), Json());
}

// ---- requests

constexpr auto kCounters = {&RunStats::rounds,         &RunStats::target_forwards,
                            &RunStats::draft_forwards, &RunStats::counted,
                            &RunStats::tested,         &RunStats::accepted,
                            &RunStats::emitted,        &RunStats::drafted,
                            &RunStats::drafted_rounds, &RunStats::target_rows};

RunStats run_stats_from(std::int64_t first) {
  RunStats run;
  for (const auto counter : kCounters) {
    run.*counter = first;
    first *= 2;
  }
  return run;
}

TEST(BatchJsonTest, TotalsAddEveryCounterAndNoTime) {
  std::vector<RequestResult> results(3);
  results[0].stats.run = run_stats_from(1);
  results[1].stats.run = run_stats_from(100);
  results[0].stats.run.sum_round_acceptance = 0.5;
  results[1].stats.run.sum_round_acceptance = 0.25;
  results[0].stats.run.sum_acceptance_prob = 1.5;
  results[1].stats.run.sum_acceptance_prob = 2.5;
  results[0].stats.run.accepted_at = {5};
  results[1].stats.run.accepted_at = {4, 3, 2};
  results[2].stats.run.accepted_at = {1, 1};
  results[0].stats.run.drafted_at = {9, 9};
  results[1].stats.run.drafted_at = {8, 7, 6};
  for (RequestResult& result : results) {
    RunStats& run = result.stats.run;
    run.prefill_seconds = run.decode_seconds = run.draft_seconds = run.verify_seconds = 1;
  }
  const RunStats total = total_stats(results);
  const RunStats want = run_stats_from(101);
  for (const auto counter : kCounters) EXPECT_EQ(total.*counter, want.*counter);
  EXPECT_EQ(total.sum_round_acceptance, 0.75);
  EXPECT_EQ(total.sum_acceptance_prob, 4);
  EXPECT_EQ(total.accepted_at, (std::vector<std::int64_t>{10, 4, 2}));
  EXPECT_EQ(total.drafted_at, (std::vector<std::int64_t>{17, 16, 6}));
  EXPECT_EQ(total.prefill_seconds, 0) << "they ran side by side";
  EXPECT_EQ(total.decode_seconds, 0);
  EXPECT_EQ(total.draft_seconds, 0);
  EXPECT_EQ(total.verify_seconds, 0);
  EXPECT_EQ(total_stats({}).rounds, 0);
}

TEST(BatchJsonTest, ARequestHasItsTimesAndCounts) {
  RequestStats stats;
  stats.run = run_stats_from(3);
  stats.run.emitted = 5;
  stats.run.prefill_seconds = 2;
  stats.arrived = 10;
  stats.admitted = 13;
  stats.first_round = 14;
  stats.first_token = 15;
  stats.last_token = 27;
  stats.finished = 28;
  stats.steps = 9;
  stats.preemptions = 1;
  stats.prefix_tokens = 32;
  stats.longest_gap = 7;
  const Json got = to_json(stats);
  expect_fields(got, {{"arrived", 10},
                      {"queue_seconds", 3},
                      {"time_to_first_token", 5},
                      {"time_per_output_token", 3},
                      {"longest_gap", 7},
                      {"finished", 28},
                      {"steps", 9},
                      {"preemptions", 1},
                      {"prefix_tokens", 32}});
  // And all of a run with one request.
  Json alone = to_json(stats.run);
  for (const char* shared :
       {"draft_seconds", "verify_seconds", "target_weight_bytes", "cache_bytes"}) {
    EXPECT_FALSE(got.contains(shared)) << shared << ": but for what a batch shares";
    EXPECT_TRUE(alone.contains(shared)) << shared;
    alone.erase(shared);
  }
  for (const auto& [key, value] : alone.items()) EXPECT_EQ(got[key], value) << key;
  EXPECT_EQ(got.size(), alone.size() + 9);
}

TEST(BatchJsonTest, ATimeThatNeverCameIsNull) {
  const Json never = to_json(RequestStats{});
  for (const char* name :
       {"arrived", "queue_seconds", "time_to_first_token", "time_per_output_token", "finished"}) {
    EXPECT_TRUE(never.at(name).is_null()) << name;
  }
  RequestStats stats;  // cancelled while it waited
  stats.arrived = 1;
  stats.finished = 2;
  const Json cancelled = to_json(stats);
  EXPECT_EQ(cancelled["arrived"], 1);
  EXPECT_EQ(cancelled["finished"], 2);
  EXPECT_TRUE(cancelled["queue_seconds"].is_null());
  EXPECT_TRUE(cancelled["time_to_first_token"].is_null());
  stats.admitted = stats.first_token = stats.last_token = 1.5;
  stats.run.emitted = 1;
  EXPECT_EQ(to_json(stats)["time_to_first_token"], 0.5);
  EXPECT_TRUE(to_json(stats)["time_per_output_token"].is_null()) << "of a single token";
  EXPECT_EQ(Json::parse(to_json(stats).dump()), to_json(stats)) << "there is no NaN in JSON";
}

// ---- steps

TEST(BatchJsonTest, AStepHasAdmissionsRoundsAndPrefills) {
  StepReport report;
  report.step = 7;
  report.started = 1;
  report.drafted = 2;
  report.verified = 4;
  report.ended = 8;
  report.admitted = {{2, 0}, {3, 8}};
  report.preempted = {5, 4};
  report.finished = {1};
  report.parts = {{.id = 0,
                   .rows = 5,
                   .round = {.start = 9, .drafted = 4, .accepted = 1},
                   .emitted = 2,
                   .length = 11},
                  {.id = 1, .rows = 1, .round = {.start = 3}, .emitted = 1},
                  {.id = 2, .prefilled = 6, .draft_prefilled = 4, .rows = 6, .length = 6}};
  report.waiting = 1;
  report.prefilling = 2;
  report.running = 3;
  report.pages = 5;
  report.most_pages = 6;
  report.draft_pages = 3;
  report.most_draft_pages = 4;
  const Json want = {
      {"step", 7},
      {"started", 1.},
      {"drafted", 2.},
      {"verified", 4.},
      {"ended", 8.},
      {"admitted", {{{"request", 2}, {"found", 0}}, {{"request", 3}, {"found", 8}}}},
      {"preempted", {5, 4}},
      {"finished", {1}},
      {"rounds",
       {{{"request", 0}, {"start", 9}, {"drafted", 4}, {"accepted", 1}, {"emitted", 2}},
        {{"request", 1}, {"start", 3}, {"drafted", 0}, {"accepted", 0}, {"emitted", 1}}}},
      {"prefills", Json::array({{{"request", 2}, {"tokens", 6}, {"draft_tokens", 4}}})},
      {"waiting", 1},
      {"pages", 5},
      {"most_pages", 6},
      {"draft_pages", 3},
      {"most_draft_pages", 4}};
  EXPECT_EQ(to_json(report), want);
}

TEST(BatchJsonTest, AStepWithoutWorkHasEmptyLists) {
  const Json got = to_json(StepReport{});
  for (const char* list : {"admitted", "preempted", "finished", "rounds", "prefills"}) {
    EXPECT_EQ(got.at(list), Json::array()) << list;
  }
}

// ---- an engine

TEST(BatchJsonTest, AnEngineSaysWhatItDid) {
  BatchSetup setup;
  setup.target_rows = setup.draft_rows = always(2);
  setup.target = {20, 3};
  setup.draft = {30, 2};
  double seconds = 0;
  setup.options.clock = [&] { return seconds += 0.5; };
  TestBatch batch(setup);
  for (int i = 0; i < 2; i++) {
    batch.add(greedy_request(some_prompt(7), 6, 1));  // three rounds of two tokens
    batch.run();
  }
  batch.add(greedy_request({1}, 2, 1));
  batch.add(greedy_request({2}, 4, 1));
  batch.run();
  const Json got = to_json(batch.engine());
  // The second request's prompt is found.
  expect_fields(got, {{"steps", 4 + 3 + 2},
                      {"target_forwards", 9},
                      {"prefill_rows", 6},
                      {"draft_prefill_rows", 6},
                      {"rounds", 3 + 3 + 1 + 2},
                      {"round_rows", 2 * 9},
                      {"preemptions", 0},
                      {"admissions", 4},
                      {"prompt_tokens", 16},
                      {"admissions_with_prefix", 1},
                      {"prefix_tokens", 6},
                      {"peak_waiting", 0},
                      {"peak_rounds", 2},
                      {"max_batch", 4},
                      {"spec_length", 4},
                      {"token_budget", 40},
                      {"prefill_chunk", 8}});
  const Json& sizes = got["decode_steps_by_batch_size"];
  ASSERT_EQ(sizes.size(), 2u) << "only those that there were";
  expect_fields(sizes[0], {{"requests", 1},
                           {"steps", 7},
                           {"rows", 14},
                           {"emitted", 14},
                           {"seconds", 7 * 1.5},
                           {"draft_seconds", 7 * 0.5},
                           {"verify_seconds", 7 * 0.5}});
  expect_fields(sizes[1], {{"requests", 2}, {"steps", 1}});
  expect_fields(got["target_pool"], {{"page_size", 3},
                                     {"pages", 20},
                                     {"peak", batch.engine().target_pool().peak_used()},
                                     {"prefix_cache",
                                      {{"lookups", 4},
                                       {"hits", 1},
                                       {"tokens_asked", 16},
                                       {"tokens_found", 6},
                                       {"pages_added", 2},
                                       {"pages_evicted", 0}}}});
  expect_fields(got["draft_pool"], {{"pages", 30}, {"page_size", 2}});
}

TEST(BatchJsonTest, APoolWithoutAPrefixCacheHasNoCountsOfOne) {
  BatchSetup setup;
  setup.options.prefix_cache = false;
  TestBatch batch(setup);
  EXPECT_EQ(keys_of(to_json(batch.engine())["draft_pool"]),
            (std::vector<std::string>{"page_size", "pages", "peak"}));
}

}  // namespace
}  // namespace specdec
