// What an engine takes and what it refuses, before anything is computed.
#include "tests/unit/stages/06_batched_verification/batch_engine_fixture.h"

namespace specdec {
namespace {

constexpr int kPromptTokens = 10, kNewTokens = 8;

BatchRequest good_request() { return sampled_request(some_prompt(kPromptTokens), kNewTokens); }

struct BadRequest {
  std::string name;
  std::function<void(BatchRequest&)> spoil;
  std::string message;
};

std::vector<BadRequest> bad_requests() {
  return {{"no prompt", [](auto& r) { r.generation.prompt.clear(); }, "the prompt has no tokens"},
          {"an id too large", [](auto& r) { r.generation.prompt[3] = 6; },
           "prompt id 6 is outside the vocabulary of 6 tokens"},
          {"an id too small", [](auto& r) { r.generation.prompt.back() = -1; },
           "prompt id -1 is outside the vocabulary of 6 tokens"},
          {"no new tokens", [](auto& r) { r.generation.max_new_tokens = 0; },
           "--max-new-tokens is 0; it takes at least 1"},
          {"a temperature below 0", [](auto& r) { r.speculation.sampling.temperature = -1; },
           "--temperature"},
          {"a draft temperature of NaN",
           [](auto& r) { r.speculation.draft_temperature = std::nan(""); }, "--draft-temperature"},
          {"a lenience of 0", [](auto& r) { r.speculation.lenience = 0; }, "--lenience is 0"},
          {"K above the engine's", [](auto& r) { r.spec_length = 5; },
           "--spec-length 5: this engine has room for 0 to 4"},
          {"K below 0", [](auto& r) { r.spec_length = -1; },
           "--spec-length -1: this engine has room for 0 to 4"},
          {"a stop text without a tokenizer", [](auto& r) { r.generation.stop = {"end"}; },
           "--stop needs a tokenizer, and there is none"},
          {"an empty stop text", [](auto& r) { r.generation.stop = {""}; },
           "--stop: the text is empty"},
          {"a context limit beyond the model's", [](auto& r) { r.context_limit = 61; },
           "--max-context 61 is not within the model's 60 positions"},
          {"a context limit below 0", [](auto& r) { r.context_limit = -1; },
           "--max-context -1 is not within the model's 60 positions"},
          {"a text beyond the model's context", [](auto& r) { r.generation.max_new_tokens = 51; },
           "a prompt of 10 tokens and 51 new ones need 61 positions, and there are 60"},
          {"a text beyond its own limit", [](auto& r) { r.context_limit = 17; },
           "a prompt of 10 tokens and 8 new ones need 18 positions, and there are 17"},
          {"more new tokens than can be counted",
           [](auto& r) { r.generation.max_new_tokens = std::numeric_limits<int>::max(); },
           "and there are 60"}};
}

TEST(BatchRequestsTest, ABadRequestIsRefusedWithTheNumbersAndNothingElseChanges) {
  TestBatch batch;
  const RequestId before = batch.add(good_request());
  batch.engine().step();
  const int used = batch.engine().target_pool().n_used();
  for (const BadRequest& bad : bad_requests()) {
    SCOPED_TRACE(bad.name);
    BatchRequest request = good_request();
    bad.spoil(request);
    EXPECT_ERROR(batch.add(request), bad.message);
    EXPECT_EQ(batch.engine().requests().size(), 1u);
    EXPECT_TRUE(batch.engine().waiting().empty());
    EXPECT_EQ(batch.engine().target_pool().n_used(), used);
  }
  const RequestId after = batch.add(good_request());
  EXPECT_EQ(after, before + 1) << "a refused request takes no number";
  const Results results = batch.run_all();
  EXPECT_EQ(results.size(), 2u);
  expect_same_outputs(results, undisturbed({good_request(), good_request()}));
}

TEST(BatchRequestsTest, TheVocabularyEndsWhereTheTokensEnd) {
  BatchSetup setup;
  setup.token_limit = 5;
  TestBatch batch(setup);
  EXPECT_ERROR(batch.add(greedy_request({1, 5}, 3)),
               "prompt id 5 is outside the vocabulary of 5 tokens");
  batch.add(greedy_request({1, 4}, 3));
}

TEST(BatchRequestsTest, WhatNeverFitsIntoAPoolIsRefusedWithTheNumbers) {
  BatchSetup setup{.target = {4, 3}, .draft = {64, 3}};
  // 18 tokens of text, of which 16 are cached when the last round begins; that feeds 4 more.
  EXPECT_ERROR(TestBatch(setup).add(good_request()),
               "the request caches up to 20 tokens in the target, 7 pages of 3, and there are 4: "
               "raise --pages or reduce --max-new-tokens");
  setup.target = {7, 3};
  setup.draft = {6, 3};
  EXPECT_ERROR(TestBatch(setup).add(good_request()),
               "the request caches up to 19 tokens in the draft, 7 pages of 3, and there are 6: "
               "raise --draft-pages or reduce --max-new-tokens");
  setup.draft = {7, 3};
  TestBatch(setup).add(good_request());
}

TEST(BatchRequestsTest, WhatNeverFitsIntoARegionIsRefusedWithTheNumbers) {
  BatchSetup setup{.target = {2, PoolSize::kRegions}, .draft = {2, PoolSize::kRegions}};
  setup.max_seq_len = setup.draft_max_seq_len = 100;
  // Of 64 positions.
  EXPECT_ERROR(TestBatch(setup).add(greedy_request(some_prompt(10), 53, 3)),
               "the request caches up to 65 tokens in the target, 2 pages of 64, and there is 1");
  setup.target = {64, 3};
  EXPECT_ERROR(TestBatch(setup).add(greedy_request(some_prompt(10), 54, 3)),
               "the request caches up to 65 tokens in the draft, 2 pages of 64, and there is 1");
  TestBatch(setup).add(greedy_request(some_prompt(10), 53, 3));
}

TEST(BatchRequestsTest, ARefusalInACallbackLeavesTheOthersAlone) {
  TestBatch batch;
  int refused = 0;
  for (int i = 0; i < 2; i++) {
    batch.add(good_request(), [&](const Delivery&) {
      EXPECT_ERROR(batch.add(greedy_request({}, 3)), "the prompt has no tokens");
      refused++;
    });
  }
  expect_same_outputs(batch.run_all(), undisturbed({good_request(), good_request()}));
  EXPECT_GT(refused, 2);
}

TEST(BatchRequestsTest, ATokenBudgetBelowARoundOfAllIsRefused) {
  BatchSetup setup;
  setup.options.token_budget = 19;
  EXPECT_ERROR(TestBatch{setup},
               "--token-budget 19: a round of 4 requests with 4 drafts each "
               "takes 20 rows");
  setup.options.token_budget = 20;
  TestBatch{setup};
}

// ---- the smallest pool

// The target never agrees with the draft: every round emits one token, so that one begins
// everywhere, and the last one, too, drafts K tokens.
BatchSetup disagreeing() {
  BatchSetup setup;
  setup.options.max_batch = 1;
  setup.options.spec_length = 5;
  setup.target_rows = always(1);
  setup.draft_rows = always(2);
  return setup;
}

bool accepts(const BatchSetup& setup, const BatchRequest& request) {
  return error_message([&] { TestBatch(setup).add(request); }).empty();
}

// The least pages with which the request is taken; those of the other pool are ample.
int least_pages(BatchSetup setup, PoolSize BatchSetup::*pool, const BatchRequest& request) {
  for ((setup.*pool).pages = 1; !accepts(setup, request);) (setup.*pool).pages++;
  return (setup.*pool).pages;
}

void expect_exact_fit(BatchSetup setup, const BatchRequest& request) {
  BatchSetup ample = setup;
  ample.options.prefix_cache = false;
  TestBatch alone(ample);
  alone.add(request);
  alone.run();
  const int target_pages = least_pages(setup, &BatchSetup::target, request);
  const int draft_pages = least_pages(setup, &BatchSetup::draft, request);
  EXPECT_EQ(target_pages, std::max(1, alone.engine().target_pool().peak_used())) << "target";
  EXPECT_EQ(draft_pages, std::max(1, alone.engine().draft_pool().peak_used())) << "draft";

  setup.target.pages = target_pages;
  setup.draft.pages = draft_pages;
  TestBatch tight(setup);
  for (int i = 0; i < 2; i++) {  // the second one finds what the prefix cache kept of the first
    const RequestId id = tight.add(request);
    tight.run();
    const RequestResult result = tight.engine().take_result(id);
    EXPECT_EQ(result.finish_reason, FinishReason::kLength) << result.error;
    EXPECT_EQ(result.stats.preemptions, 0);
  }
  tight.expect_no_leak();
}

TEST(BatchRequestsTest, TheSmallestPoolThatIsAcceptedIsWhatTheRunNeeds) {
  for (const int page_size : {1, 3, 16}) {
    for (int K = 0; K <= 5; K++) {
      for (const int prompt : {1, 8}) {
        for (const int new_tokens : {1, 2, 7}) {
          const int text = prompt + new_tokens;
          for (const int context_limit : {text, text + 1, text + 4, 60}) {
            for (const int draft_limit : {60, text, text - 2, prompt, prompt - 1}) {
              if (draft_limit < 1) continue;
              SCOPED_TRACE(fmt::format("page size {}, K {}, {}+{} tokens, context {}, draft's {}",
                                       page_size, K, prompt, new_tokens, context_limit,
                                       draft_limit));
              BatchSetup setup = disagreeing();
              setup.target = setup.draft = {80, page_size};
              setup.draft_max_seq_len = draft_limit;
              BatchRequest request = greedy_request(some_prompt(prompt), new_tokens, K);
              request.context_limit = context_limit;
              expect_exact_fit(setup, request);
              if (::testing::Test::HasFailure()) return;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace specdec
