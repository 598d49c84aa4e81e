// How large an engine is made for its requests.
#include <limits>
#include <map>

#include "tests/unit/stages/programs/batch/sized_requests.h"

namespace specdec {
namespace {

TEST(BatchSizesTest, AreThoseThatTheOptionsSayWhateverIsToCome) {
  RunOptions options = with_pages_of(16, 8);
  options.max_batch = 4;
  options.spec_length = 3;
  const BatchSizes largest = batch_sizes(options, 1000);
  EXPECT_EQ(largest.capacity.context, 1000) << "the model's";
  options.max_context = 50;
  const BatchSizes sizes = batch_sizes(options, 1000);
  EXPECT_EQ(sizes.spec_length, 3);
  EXPECT_EQ(sizes.capacity.requests, 4);
  EXPECT_EQ(sizes.capacity.context, 50);
  EXPECT_EQ(sizes.pages, 4 * 4) << "for four texts of 50 tokens";
  EXPECT_EQ(sizes.capacity.pages, 4 * 7);
  EXPECT_EQ(sizes.token_budget, 256);
  options.no_speculation = true;
  EXPECT_EQ(batch_sizes(options, 1000).spec_length, 0);
  EXPECT_FALSE(batch_sizes(options, 1000).draft_is_model);
}

// A line of a file may name a larger K than the command line, but not one for which a pass has no
// rows.
TEST(BatchSizesTest, KIsTheLargestThatTheTokenBudgetAllows) {
  RunOptions options;
  options.max_batch = 3;
  const std::vector<BatchRequest> requests = {request_of(9, 5, 8), request_of(9, 5, 2),
                                              request_of(9, 5, 3)};
  EXPECT_EQ(sizes_for(options, requests).spec_length, 8);
  for (const auto& [budget, K] : std::map<int, int>{{27, 8}, {26, 7}, {21, 6}, {18, 5}, {6, 5}}) {
    options.token_budget = budget;
    EXPECT_EQ(sizes_for(options, requests).spec_length, K) << budget << "; the command line has 5";
  }
}

// The last round begins when all tokens but one are there, the pending one among them: 14 of 15 in
// the first request's case, 13 of them cached. It computes the pending one and K = 3 drafts: 17.
// The draft does not compute its own last draft: 16.
TEST(BatchSizesTest, PagesAreForTheMostThatTheLongestRequestsEverCache) {
  const std::vector<BatchRequest> requests = {request_of(10, 5, 3), request_of(4, 2, 0),
                                              request_of(30, 1, 2), request_of(8, 20, 4)};
  // 17, 4 + 2 - 2 + 1 = 5, 29 + 2 + 1 = 32 and 26 + 4 + 1 = 31 in the target; in the draft 16,
  // none, 31 and 30.
  struct Case {
    int max_batch, page_size, pages, draft_page_size, draft_pages;
  };
  const std::vector<Case> cases = {{1, 1, 32, 1, 31},
                                   {2, 1, 32 + 31, 1, 31 + 30},
                                   {3, 1, 32 + 31 + 17, 1, 31 + 30 + 16},
                                   {4, 1, 32 + 31 + 17 + 5, 1, 31 + 30 + 16},
                                   {16, 1, 32 + 31 + 17 + 5, 1, 31 + 30 + 16},
                                   {4, 16, 2 + 2 + 2 + 1, 16, 2 + 2 + 1},
                                   {4, 3, 11 + 11 + 6 + 2, 5, 7 + 6 + 4}};
  for (const Case& c : cases) {
    SCOPED_TRACE(fmt::format("{} at a time, pages of {} and {}", c.max_batch, c.page_size,
                             c.draft_page_size));
    RunOptions options = with_pages_of(c.page_size, c.draft_page_size);
    options.max_batch = c.max_batch;
    const BatchSizes sizes = sizes_for(options, requests);
    EXPECT_EQ(sizes.capacity.requests, std::min(c.max_batch, 4));
    EXPECT_EQ(sizes.pages, c.pages);
    EXPECT_EQ(sizes.capacity.pages, c.draft_pages);
    EXPECT_EQ(sizes.capacity.context, 32);
    EXPECT_EQ(sizes.spec_length, 4) << "the largest";
    EXPECT_TRUE(sizes.draft_is_model);
  }
}

TEST(BatchSizesTest, ARequestStaysWithinItsContext) {
  const RunOptions options = with_pages_of(1, 1);
  const std::vector<BatchRequest> requests = {request_of(10, 5, 3, 15)};
  EXPECT_EQ(sizes_for(options, requests).pages, 15) << "17, were it not for the limit";
  EXPECT_EQ(sizes_for(options, requests).capacity.pages, 14);
}

// Four requests that are all at their longest at once, as no draft is ever accepted: the defaults
// hold them, and all that they take is used.
TEST(BatchSizesTest, AnEngineOfTheDefaultSizesUsesThemToTheLastPage) {
  for (const int page_size : {1, 3, 16}) {
    for (const int K : {0, 1, 4}) {
      SCOPED_TRACE(fmt::format("K = {}, pages of {}", K, page_size));
      std::vector<BatchRequest> requests;
      for (int i = 0; i < 6; i++) {
        requests.push_back(greedy_request(some_prompt(9, i), 12, K));
        requests.back().context_limit = 60;
      }
      RunOptions options = with_pages_of(page_size, page_size + 1);
      options.max_batch = 4;
      const BatchSizes sizes = sizes_for(options, requests);
      BatchSetup setup{.target = {sizes.pages, page_size},
                       .draft = {sizes.capacity.pages, page_size + 1}};
      setup.options = {.max_batch = sizes.capacity.requests,
                       .spec_length = sizes.spec_length,
                       .token_budget = sizes.token_budget,
                       .prefix_cache = false,
                       .check_invariants = true};
      setup.target_rows = always(1);
      setup.draft_rows = always(2);
      TestBatch batch(setup);
      for (const BatchRequest& request : requests) batch.add(request);
      batch.run();
      const EngineStats& stats = batch.engine().stats();
      EXPECT_EQ(stats.preemptions, 0);
      EXPECT_EQ(stats.steps_given_up, 0);
      EXPECT_EQ(stats.peak_rounds, 4);
      EXPECT_EQ(batch.engine().target_pool().peak_used(), sizes.pages);
      EXPECT_EQ(batch.engine().draft_pool().peak_used(), K > 0 ? sizes.capacity.pages : 0);
    }
  }
}

TEST(BatchSizesTest, WhatTheOptionsSayWins) {
  RunOptions options = with_pages_of(1, 1);
  options.pages = 7;
  options.draft_pages = 8;
  options.token_budget = 9;
  const BatchSizes sizes = sizes_for(options, std::vector{request_of(10, 5, 3)});
  EXPECT_EQ(sizes.pages, 7);
  EXPECT_EQ(sizes.capacity.pages, 8);
  EXPECT_EQ(sizes.token_budget, 9) << "that it does not do is for the engine to say";
}

TEST(BatchSizesTest, TheTokenBudgetIsForAllRoundsAndSomePrompts) {
  RunOptions options;
  options.max_batch = 100;
  EXPECT_EQ(sizes_for(options, std::vector(2, request_of(3, 3, 5))).token_budget, 256);
  EXPECT_EQ(sizes_for(options, std::vector(37, request_of(3, 3, 5))).token_budget, 256);
  EXPECT_EQ(sizes_for(options, std::vector(38, request_of(3, 3, 5))).token_budget, 38 * 6 + 32);
  EXPECT_EQ(sizes_for(options, std::vector(200, request_of(3, 3, 5))).token_budget, 632);
}

TEST(BatchSizesTest, AContiguousCacheHasAStretchForEachRequest) {
  RunOptions options = with_pages_of(1, 1);
  options.cache = CacheKind::kContiguous;
  options.max_batch = 3;
  const BatchSizes sizes = sizes_for(options, std::vector(5, request_of(10, 5, 3)));
  EXPECT_EQ(sizes.pages, 3);
  EXPECT_EQ(sizes.capacity.pages, 3);
  EXPECT_EQ(sizes.capacity.context, 17);
}

TEST(BatchSizesTest, WithoutSpeculationThereIsNoDraft) {
  const BatchSizes sizes = sizes_for(RunOptions{}, std::vector(2, request_of(10, 5, 0)));
  EXPECT_EQ(sizes.spec_length, 0);
  EXPECT_FALSE(sizes.draft_is_model);
  EXPECT_EQ(sizes.capacity.context, 14);
  EXPECT_EQ(sizes.capacity.pages, 1) << "the least that a cache can have";
}

TEST(BatchSizesTest, OnlyALlamaIsADraftWithACache) {
  for (const auto& [kind, is_model] : std::map<DraftKind, bool>{
           {DraftKind::kLlama, true}, {DraftKind::kSelf, true}, {DraftKind::kLookup, false}}) {
    RunOptions options;
    options.draft_kind = kind;
    const BatchSizes sizes = sizes_for(options, std::vector{request_of(10, 5, 3)});
    EXPECT_EQ(sizes.draft_is_model, is_model) << name_of(kind);
  }
}

TEST(BatchSizesTest, WithoutRequestsThereIsTheLeast) {
  const BatchSizes sizes = sizes_for(RunOptions{}, {});
  EXPECT_EQ(sizes.capacity.requests, 1);
  EXPECT_EQ(sizes.pages, 1);
  EXPECT_EQ(sizes.capacity.context, 1);
}

// Such a cache cannot be had, and that is said where it is made.
TEST(BatchSizesTest, RequestsForMoreThanCanBeCountedGiveAsManySlotsAsCanBe) {
  const BatchSizes sizes =
      sizes_for(RunOptions{}, std::vector(16, request_of(10, 1 << 30, 5, 1 << 30)));
  EXPECT_EQ(sizes.pages, std::numeric_limits<int>::max() / 16);
  EXPECT_EQ(sizes.capacity.pages, sizes.pages);
  EXPECT_EQ(sizes.capacity.context, (1 << 30) + 9);
}

}  // namespace
}  // namespace specdec
