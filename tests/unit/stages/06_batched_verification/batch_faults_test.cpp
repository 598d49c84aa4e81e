// Caches that are full although the plans say that they are not: at every call that may find one
// so.
#include "tests/unit/stages/06_batched_verification/faulty_cache.h"

namespace specdec {
namespace {

struct Place {
  std::string name;
  PoolSize pool;
  bool prefix_cache, in_draft;
};

void PrintTo(const Place& place, std::ostream* out) { *out << place.name; }

class BatchFaultsTest : public ::testing::TestWithParam<Place> {
 protected:
  BatchSetup setup(Faults& faults) const {
    const Place& place = GetParam();
    BatchSetup setup{.target = place.pool, .draft = place.pool};
    setup.options.prefix_cache = place.prefix_cache;
    (place.in_draft ? setup.make_draft_cache : setup.make_target_cache) = make_faulty_cache(faults);
    return setup;
  }

  // What comes out with these faults. Invariants are checked in every step, and there is an end.
  Results run(Faults& faults) const {
    TestBatch batch(setup(faults));
    for (const BatchRequest& request : mixed_requests()) batch.add(request);
    const Results results = batch.run_all();
    batch.expect_no_leak();
    if (faults.calls > faults.first && faults.count > 0) {
      EXPECT_GT(batch.engine().stats().steps_given_up, 0);
    }
    for (const auto& [id, heard] : batch.heard) {
      EXPECT_EQ(heard.tokens, results.at(id).tokens) << "request " << id;
    }
    return results;
  }
  int calls_without_faults() const {
    Faults none;
    run(none);
    return none.calls;
  }

  const Results want_ = undisturbed(mixed_requests());
};

INSTANTIATE_TEST_SUITE_P(
    Places, BatchFaultsTest,
    ::testing::Values(Place{"TargetPages", {24, 3}, false, false},
                      Place{"DraftPages", {24, 3}, false, true},
                      Place{"TargetPagesWithPrefixes", {24, 3}, true, false},
                      Place{"DraftPagesWithPrefixes", {24, 3}, true, true},
                      Place{"TargetRegions", {4, PoolSize::kRegions}, false, false},
                      Place{"DraftRegions", {4, PoolSize::kRegions}, false, true}),
    [](const auto& place) { return place.param.name; });

TEST_P(BatchFaultsTest, OneFaultAnywhereChangesNoOutput) {
  const int calls = calls_without_faults();
  ASSERT_GT(calls, 10);
  for (int first = 0; first < calls; first++) {
    SCOPED_TRACE(fmt::format("call {} of {} fails", first, calls));
    Faults faults{.first = first, .count = 1};
    expect_same_outputs(run(faults), want_);
    if (HasFailure()) return;
  }
}

// Requests may end by it; those that do not are as they were.
TEST_P(BatchFaultsTest, FaultsForAWhileChangeNoOutputOfThoseThatSurvive) {
  const int calls = calls_without_faults();
  std::size_t survivors = 0;
  for (const int count : {2, 3, 6, 20}) {
    for (int first = 0; first < calls; first += 2) {
      SCOPED_TRACE(fmt::format("{} calls fail, from {} of {} on", count, first, calls));
      Faults faults{.first = first, .count = count};
      const Results results = run(faults);
      std::vector<RequestId> ended;
      for (const auto& [id, result] : results) {
        if (result.finish_reason != FinishReason::kError) continue;
        EXPECT_EQ(result.error, "full by injection");
        EXPECT_LE(result.tokens.size(), want_.at(id).tokens.size());
        EXPECT_TRUE(
            std::equal(result.tokens.begin(), result.tokens.end(), want_.at(id).tokens.begin()));
        ended.push_back(id);
      }
      EXPECT_LE(std::ssize(ended), count / 2) << "a request gets a second try";
      survivors += results.size() - ended.size();
      expect_same_outputs(results, want_, ended);
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(survivors, 0u);
}

TEST_P(BatchFaultsTest, ACacheThatStaysFullEndsAllRequestsThatNeedIt) {
  for (const int first : {0, 1, 5, 17}) {
    SCOPED_TRACE(fmt::format("from call {} on", first));
    Faults faults{.first = first, .count = 1 << 30};
    const Results results = run(faults);
    ASSERT_EQ(results.size(), want_.size());
    for (const auto& [id, result] : results) {
      const bool needs_it =
          !GetParam().in_draft || mixed_requests()[static_cast<std::size_t>(id)].spec_length > 0;
      if (needs_it && first == 0) {
        EXPECT_EQ(result.error, "full by injection") << id;
      }
    }
    if (HasFailure()) return;
  }
}

// An engine whose target's cache is full when the test says so.
class BatchFaultsAtTimesTest : public ::testing::Test {
 protected:
  static BatchSetup setup(Faults& faults) {
    BatchSetup setup;
    setup.options.prefix_cache = false;
    setup.make_target_cache = make_faulty_cache(faults);
    return setup;
  }
  void fail_next(int calls) {
    faults_ = {.first = faults_.calls, .count = calls, .calls = faults_.calls};
  }
  void step_until_a_round() {
    do {
      ASSERT_FALSE(batch_.engine().idle());
      batch_.engine().step();
    } while (batch_.engine().stats().rounds == rounds_);
    rounds_ = batch_.engine().stats().rounds;
  }

  Faults faults_;
  TestBatch batch_{setup(faults_)};
  std::int64_t rounds_ = 0;
};

// After a failure nobody is admitted beside those who go on, and a request that fails alone again
// ends; but only until there was a round.
TEST_F(BatchFaultsAtTimesTest, AFailureIsForgottenWithTheNextRound) {
  const std::vector<BatchRequest> requests = {greedy_request(some_prompt(5), 30),
                                              greedy_request(some_prompt(3), 2)};
  batch_.add(requests[0]);
  step_until_a_round();
  for (int i = 0; i < 3; i++) {
    fail_next(1);
    EXPECT_TRUE(batch_.engine().step().given_up);
    step_until_a_round();
  }
  batch_.add(requests[1]);
  EXPECT_EQ(batch_.engine().step().admitted.size(), 1u) << "there is room, and nothing against it";
  EXPECT_EQ(batch_.engine().admitted().size(), 2u);
  expect_same_outputs(batch_.run_all(), undisturbed(requests));
  EXPECT_EQ(batch_.engine().stats().steps_given_up, 3);
}

TEST_F(BatchFaultsAtTimesTest, WhoComesAfterAnErrorHasASecondTryToo) {
  const std::vector<BatchRequest> requests(2, greedy_request({1}, 9));
  batch_.add(requests[0]);
  fail_next(3);  // two for the first request, one for the second
  batch_.engine().step();
  batch_.engine().step();
  EXPECT_TRUE(batch_.engine().has_result(0));
  batch_.add(requests[1]);
  const Results results = batch_.run_all();
  EXPECT_EQ(results.at(0).error, "full by injection");
  expect_same_outputs(results, undisturbed(requests), {0});
  EXPECT_EQ(batch_.engine().stats().steps_given_up, 3);
}

// The prefix cache makes sequences of pages that are there: it works in a pool without a free page.
TEST(BatchFaultsPrefixTest, SequencesOnCachedPagesAreMadeInAFullPool) {
  BatchSetup setup{.target = {4, 3}};
  TestBatch batch(setup);
  const BatchRequest request = greedy_request(some_prompt(10), 3, 0);
  for (int i = 0; i < 3; i++) {
    batch.add(request);
    batch.run();
    EXPECT_EQ(batch.engine().target_pool().n_used(), 3);
  }
  batch.add(request);
  batch.engine().step();
  EXPECT_EQ(batch.engine().target_pool().n_free(), 0);
  batch.add(request);  // its first three pages are there, the fourth is not
  const Results results = batch.run_all();
  EXPECT_EQ(batch.engine().stats().steps_given_up, 0);
  expect_same_outputs(results, undisturbed(std::vector(5, request)));
}

}  // namespace
}  // namespace specdec
