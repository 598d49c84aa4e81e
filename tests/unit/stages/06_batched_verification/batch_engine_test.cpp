// One engine, several requests: what each is told, how each ends, and that what befalls one is
// nothing to the others.
#include "common/base/utf8.h"
#include "tests/engine_fixture.h"
#include "tests/unit/stages/06_batched_verification/batch_engine_fixture.h"

namespace specdec {
namespace {

TEST(BatchEngineTest, EachRequestGivesWhatItGivesAlone) {
  const std::vector<BatchRequest> requests = mixed_requests();
  const Results together = undisturbed(requests);
  ASSERT_EQ(together.size(), requests.size());
  for (std::size_t i = 0; i < requests.size(); i++) {
    SCOPED_TRACE(i);
    expect_same_output(together.at(static_cast<RequestId>(i)), undisturbed({requests[i]}).at(0));
  }
}

TEST(BatchEngineTest, ContiguousCachesGiveTheSame) {
  BatchSetup setup{.target = {4, PoolSize::kRegions}, .draft = {4, PoolSize::kRegions}};
  TestBatch batch(setup);
  for (const BatchRequest& request : mixed_requests()) batch.add(request);
  expect_same_outputs(batch.run_all(), undisturbed(mixed_requests()));
  batch.expect_no_leak();
}

// The engine is to take what there is, also where that is less than a region for everyone.
TEST(BatchEngineTest, FewerRegionsThanTheBatchMakeRequestsWait) {
  for (const auto& [target, draft] : std::vector<std::pair<int, int>>{{1, 4}, {4, 1}, {2, 3}}) {
    SCOPED_TRACE(fmt::format("{} and {} regions", target, draft));
    BatchSetup setup{.target = {target, PoolSize::kRegions}, .draft = {draft, PoolSize::kRegions}};
    TestBatch batch(setup);
    for (const BatchRequest& request : mixed_requests()) batch.add(request);
    batch.run();
    EXPECT_EQ(batch.engine().stats().steps_given_up, 0);
    expect_same_outputs(batch.take_results(), undisturbed(mixed_requests()));
  }
}

// ---- deliveries and ends

TEST(BatchEngineTest, TokensAreDeliveredInOrderAndTheFinalDeliveryComesOnce) {
  TestBatch batch;
  int most_tokens = 0;
  for (const BatchRequest& request : mixed_requests()) {
    batch.add(request, [&](const Delivery& d) {
      most_tokens = std::max(most_tokens, static_cast<int>(d.tokens.size()));
    });
  }
  const Results results = batch.run_all();
  for (const auto& [id, result] : results) {
    SCOPED_TRACE(id);
    const Heard& heard = batch.heard.at(id);
    EXPECT_EQ(heard.tokens, result.tokens);
    EXPECT_EQ(heard.finals, 1);
    EXPECT_EQ(heard.finish_reason, result.finish_reason);
    EXPECT_EQ(heard.deliveries, result.stats.run.rounds) << "one a round, the last one final";
  }
  EXPECT_GT(most_tokens, 2) << "a round brings several tokens";
}

TEST(BatchEngineTest, DeliveriesOfAStepComeInOrderOfAge) {
  TestBatch batch;
  std::vector<RequestId> order;
  for (int i = 0; i < 4; i++) {
    batch.add(greedy_request({1}, 5), [&](const Delivery& d) { order.push_back(d.id); });
  }
  batch.engine().step();
  EXPECT_EQ(order, (std::vector<RequestId>{0, 1, 2, 3}));
}

TEST(BatchEngineTest, EosStopsAndTheLimitEnds) {
  BatchSetup setup;
  setup.target_rows = setup.draft_rows = always(3);
  TestBatch batch(setup);
  BatchRequest stops = greedy_request({1, 2}, 9);
  stops.generation.eos_ids = {3};
  batch.add(stops);
  batch.add(greedy_request({1, 2}, 9));
  const Results results = batch.run_all();
  EXPECT_EQ(results.at(0).finish_reason, FinishReason::kStop);
  EXPECT_EQ(results.at(0).tokens, std::vector<TokenId>{3}) << "nothing after an eos in mid-round";
  EXPECT_EQ(results.at(1).finish_reason, FinishReason::kLength);
  EXPECT_EQ(results.at(1).tokens, std::vector<TokenId>(9, 3));
  EXPECT_EQ(results.at(1).stats.run.emitted, 9);
}

// A model that goes on with a text, after a prompt of its first tokens.
BatchSetup recites(const Tokenizer& tokenizer, std::vector<TokenId> text) {
  BatchSetup setup;
  setup.vocab_size = tokenizer.vocab_size();
  setup.tokenizer = &tokenizer;
  auto row = std::make_shared<std::vector<float>>(static_cast<std::size_t>(setup.vocab_size));
  setup.target_rows = setup.draft_rows = [=](std::span<const TokenId> prefix) {
    std::ranges::fill(*row, 0.f);
    const std::size_t next = std::min(prefix.size(), text.size() - 1);
    (*row)[static_cast<std::size_t>(text[next])] = 9;
    return std::span<const float>(*row);
  };
  setup.max_seq_len = setup.draft_max_seq_len = 120;
  return setup;
}

TEST(BatchEngineTest, TextNeverSplitsACharacterAndNeverShowsAPartOfAStopText) {
  const Tokenizer tokenizer = Tokenizer::load(golden_model("target") / "tokenizer.json");
  const std::string text = "Once upon a time: naïve café, 東京 and 😀😀. The end of it all. THE END";
  const std::vector<TokenId> tokens = tokenizer.encode(text, false);
  ASSERT_GT(tokens.size(), 20u);
  ASSERT_LT(tokens.size(), 100u);
  const BatchSetup setup = recites(tokenizer, tokens);
  for (const std::string stop : {"end of", "😀", " THE END", "é, 東", "never said"}) {
    for (int K = 0; K <= 4; K++) {
      SCOPED_TRACE(fmt::format("stop at '{}', K {}", stop, K));
      BatchRequest request =
          greedy_request({tokens.front()}, static_cast<int>(tokens.size()) - 1, K);
      request.generation.stop = {stop};
      TestBatch batch(setup);
      std::string streamed;
      batch.add(request, [&](const Delivery& delivery) {
        EXPECT_FALSE(find_invalid_utf8(delivery.text)) << delivery.text;
        streamed += delivery.text;
      });
      const RequestResult result = batch.run_all().at(0);
      const std::string whole = tokenizer.decode(std::span(tokens).subspan(1));
      const std::size_t at = whole.find(stop);
      EXPECT_EQ(result.text, whole.substr(0, at));
      EXPECT_EQ(streamed, result.text);
      EXPECT_EQ(result.finish_reason,
                at == std::string::npos ? FinishReason::kLength : FinishReason::kStop);
    }
  }
}

TEST(BatchEngineTest, AResultIsTakenOnce) {
  TestBatch batch;
  const RequestId id = batch.add(greedy_request({1}, 3));
  EXPECT_FALSE(batch.engine().has_result(id));
  EXPECT_DEATH(batch.engine().take_result(id), "request 0 to be finished");
  batch.run();
  EXPECT_TRUE(batch.engine().has_result(id));
  EXPECT_EQ(batch.engine().take_result(id).tokens.size(), 3u);
  EXPECT_FALSE(batch.engine().has_result(id));
  EXPECT_DEATH(batch.engine().take_result(id), "request 0 to be finished");
}

TEST(BatchEngineTest, AStepOfAnIdleEngineDoesNothing) {
  TestBatch batch;
  EXPECT_TRUE(batch.engine().idle());
  const StepReport& report = batch.engine().step();
  EXPECT_TRUE(report.parts.empty());
  EXPECT_EQ(batch.target.forwards(), 0);
}

// ---- callbacks

// The request's callback throws at its n-th delivery (-1: the final one).
template <typename Thrown>
void expect_end_by_callback(RequestId who, int n, Thrown thrown, const std::string& error) {
  SCOPED_TRACE(fmt::format("request {} throws at delivery {}", who, n));
  TestBatch batch;
  int deliveries = 0;
  for (const BatchRequest& request : mixed_requests()) {
    batch.add(request, [&, who, n](const Delivery& delivery) {
      if (delivery.id != who) return;
      deliveries++;
      if (n == -1 ? delivery.finished : deliveries == n) throw thrown;
    });
  }
  const Results results = batch.run_all();
  const Results want = undisturbed(mixed_requests());
  expect_same_outputs(results, want, {who});
  EXPECT_EQ(finish_reason_name(results.at(who).finish_reason), "error");
  EXPECT_EQ(results.at(who).error, error);
  const auto& tokens = want.at(who).tokens;
  ASSERT_LE(results.at(who).tokens.size(), tokens.size());
  EXPECT_TRUE(
      std::equal(results.at(who).tokens.begin(), results.at(who).tokens.end(), tokens.begin()));
  if (n > 0) {
    EXPECT_EQ(deliveries, n) << "a callback that has thrown is not called again";
  }
  batch.expect_no_leak();
}

TEST(BatchEngineTest, ACallbackThatThrowsEndsItsOwnRequestOnly) {
  for (const RequestId who : {0, 3, 5}) {
    for (const int n : {1, 2, -1}) {
      expect_end_by_callback(who, n, std::runtime_error("no more"), "its callback threw: no more");
      expect_end_by_callback(who, n, 42, "its callback threw");
    }
  }
}

TEST(BatchEngineTest, ACallbackMayAddRequests) {
  const BatchRequest request = sampled_request(some_prompt(9), 10);
  TestBatch batch;
  int left = 5;
  OnDelivery add_another = [&](const Delivery& delivery) {
    if (delivery.finished || left-- <= 0) return;
    batch.add(request, add_another);
  };
  batch.add(request, add_another);
  const Results results = batch.run_all();
  ASSERT_EQ(results.size(), 6u);
  for (const auto& [id, result] : results) {
    expect_same_output(result, undisturbed({request}).at(0));
  }
  batch.expect_no_leak();
}

TEST(BatchEngineTest, ACallbackMayTakeResultsOfEarlierSteps) {
  TestBatch batch;
  batch.add(greedy_request({1}, 1));
  bool taken = false;
  batch.add(greedy_request({2}, 12, 1), [&](const Delivery&) {
    if (batch.engine().has_result(0)) taken = batch.engine().take_result(0).tokens.size() == 1;
  });
  batch.run();
  EXPECT_TRUE(taken);
}

TEST(BatchEngineTest, ACallbackMustNotStep) {
  TestBatch batch;
  batch.add(greedy_request({1}, 3), [&](const Delivery&) { batch.engine().step(); });
  EXPECT_DEATH(batch.engine().step(), "no call of step");
}

// ---- logits that are no numbers

// Rows that are NaN after texts that begin with this token and have at least so many.
TableModel::RowOf nan_after(TableModel::RowOf rows, TokenId first, int length) {
  auto nans = std::make_shared<std::vector<float>>(Tables::kVocab, std::nanf(""));
  return [=](std::span<const TokenId> prefix) {
    const bool spoiled = prefix.front() == first && std::ssize(prefix) >= length;
    return spoiled ? std::span<const float>(*nans) : rows(prefix);
  };
}

std::vector<BatchRequest> requests_with_a_marked_one() {
  std::vector<BatchRequest> requests = mixed_requests();  // whose prompts begin with 0
  requests[2].generation.prompt.front() = 5;
  return requests;
}

void expect_end_by_nan(const BatchSetup& setup, const std::vector<BatchRequest>& requests,
                       int most_tokens) {
  TestBatch batch(setup);
  for (const BatchRequest& request : requests) batch.add(request);
  const Results results = batch.run_all(), want = undisturbed(requests);
  expect_same_outputs(results, want, {2});
  const RequestResult& result = results.at(2);
  EXPECT_EQ(finish_reason_name(result.finish_reason), "error");
  EXPECT_THAT(result.error, ::testing::ContainsRegex("nan|number"));
  EXPECT_LE(std::ssize(result.tokens), most_tokens);
  EXPECT_TRUE(std::equal(result.tokens.begin(), result.tokens.end(), want.at(2).tokens.begin()));
  EXPECT_EQ(batch.heard.at(2).tokens, result.tokens);
  EXPECT_EQ(batch.heard.at(2).error, result.error);
  EXPECT_EQ(std::ssize(result.tokens), result.stats.run.emitted);
  batch.expect_no_leak();
}

// extra: tokens that the request gets nevertheless.
void expect_nans_end_one(TableModel::RowOf BatchSetup::*rows, int extra) {
  for (const double temperature : {0., 1.}) {
    for (int length = 20; length < 27; length++) {
      SCOPED_TRACE(fmt::format("temperature {}, from {} tokens on", temperature, length));
      std::vector<BatchRequest> requests = requests_with_a_marked_one();
      requests[2].speculation.sampling.temperature = temperature;
      requests[2].speculation.draft_temperature = temperature;
      requests[2].generation.eos_ids = {};
      BatchSetup setup;
      setup.*rows = nan_after(setup.*rows, 5, length);
      expect_end_by_nan(setup, requests, length - 20 + extra);
    }
  }
}

TEST(BatchEngineTest, NansOfTheTargetEndTheRequestTheyBelongTo) {
  expect_nans_end_one(&BatchSetup::target_rows, 0);
}

TEST(BatchEngineTest, NansOfTheDraftEndTheRequestTheyBelongTo) {
  expect_nans_end_one(&BatchSetup::draft_rows, 1);  // the bonus
}

TEST(BatchEngineTest, WhoseDraftsAreNoNumbersLeavesItsPromptToOthers) {
  BatchSetup setup;
  setup.draft_rows = nan_after(setup.draft_rows, 5, 0);
  TestBatch batch(setup);
  batch.add(requests_with_a_marked_one()[2]);
  EXPECT_EQ(finish_reason_name(batch.run_all().at(0).finish_reason), "error");
  EXPECT_GT(batch.engine().target_pool().prefixes()->pages(), 0);
  EXPECT_GT(batch.engine().draft_pool().prefixes()->pages(), 0) << "computed before any draft";
}

TEST(BatchEngineTest, WhatIsDraftedTwiceCountsOnce) {
  BatchSetup setup;
  setup.draft_rows = nan_after(setup.draft_rows, 5, 22);
  TestBatch batch(setup);
  for (const BatchRequest& request : requests_with_a_marked_one()) batch.add(request);
  const Results results = batch.run_all();
  const Results want = undisturbed(requests_with_a_marked_one());
  for (const auto& [id, result] : results) {
    if (id == 2) continue;
    EXPECT_EQ(result.stats.run.counted, want.at(id).stats.run.counted) << id;
    EXPECT_EQ(result.stats.run.rounds, want.at(id).stats.run.rounds) << id;
  }
}

}  // namespace
}  // namespace specdec
