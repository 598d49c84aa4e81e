// Many searches at once: each finds what it finds alone, whatever is admitted, preempted or
// finished beside it, and nothing is left in the caches.
#include "stages/10_beam_search/beam_batch.h"

#include <random>

#include <gtest/gtest.h>

#include "common/base/check.h"
#include "stages/03_paged_kv_cache/paged_kv_cache.h"
#include "tests/paged_table_model.h"
#include "tests/table_model.h"
#include "tests/unit/stages/10_beam_search/beam_fixture.h"

namespace specdec {
namespace {

constexpr int kVocabulary = 6, kRows = 40;
constexpr KvShape kShape{.n_layers = 1, .n_kv_heads = 1, .head_dim = 1};

ContextTable random_table(unsigned seed) {
  std::mt19937 random(seed);
  return ContextTable(kVocabulary, [&](int) { return random_weights(kVocabulary, 0, random); });
}

// A target and a draft in caches of a few pages.
class BeamBatchTest : public ::testing::Test {
 protected:
  BeamBatchTest()
      : backend_(make_plain_backend()), table_(random_table(1)), other_(random_table(2)) {}

  void make(int tokens, int page_size) {
    target_cache_ =
        std::make_unique<PagedKvCache>(*backend_, kShape, tokens / page_size, page_size);
    draft_cache_ = std::make_unique<PagedKvCache>(*backend_, kShape, tokens / page_size, page_size);
    target_ = std::make_unique<PagedTableModel>(*target_cache_, table_);
    draft_ = std::make_unique<PagedTableModel>(*draft_cache_, other_);
    drafter_ = std::make_unique<ModelBeamDrafter>(*draft_, kRows);
  }

  static BeamRequest random_request(std::mt19937& random) {
    BeamRequest request;
    for (unsigned i = 0; i < 1 + random() % 12; i++) {
      request.prompt.push_back(TokenId(random() % kVocabulary));
    }
    request.max_new_tokens = int(1 + random() % 14);
    if (random() % 2 == 0) request.eos_ids = {0};
    request.beams.width = int(1 + random() % 3);
    request.beams.early_stopping = static_cast<EarlyStopping>(random() % 3);
    request.draft_width = request.beams.width == 1 ? 1 : 4;  // a beam of one: greedy speculation
    return request;
  }

  std::vector<Hypothesis> alone(const BeamRequest& request) const {
    TableModel target(kVocabulary, table_.row_of());
    return search_plainly(target, {.prompt = request.prompt,
                                   .max_new_tokens = request.max_new_tokens,
                                   .eos_ids = request.eos_ids,
                                   .beams = request.beams})
        .hypotheses;
  }

  void expect_nothing_cached() const {
    EXPECT_EQ(target_cache_->allocator().n_used(), 0);
    EXPECT_EQ(draft_cache_->allocator().n_used(), 0);
  }

  std::unique_ptr<Backend> backend_;
  ContextTable table_, other_;
  std::unique_ptr<PagedKvCache> target_cache_, draft_cache_;
  std::unique_ptr<PagedTableModel> target_, draft_;
  std::unique_ptr<ModelBeamDrafter> drafter_;
};

TEST_F(BeamBatchTest, EachFindsWhatItFindsAlone) {
  int preemptions = 0, saved = 0, most = 0;
  for (unsigned seed = 0; seed < 60; seed++) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const int page_size = std::vector{1, 3, 8}[seed % 3];
    make(72, page_size);
    BeamBatch batch(*target_, *drafter_, {.width = 4, .spec_length = 2}, kRows, 72);
    std::vector<BeamRequest> requests;
    for (int step = 0; step < 8 || !batch.idle(); step++) {
      if (step < 8) {
        requests.push_back(random_request(random));
        EXPECT_EQ(batch.add(requests.back()), step);
      }
      batch.step();
      most = std::max(most, batch.admitted());
    }
    for (std::size_t i = 0; i < requests.size(); i++) {
      ASSERT_TRUE(batch.has_result(int(i)));
      const BeamResult result = batch.take_result(int(i));
      EXPECT_EQ(result.hypotheses, alone(requests[i]));
      preemptions += result.preemptions;
      saved += result.steps - result.rounds;
    }
    expect_nothing_cached();
  }
  EXPECT_GT(most, 2) << "several run at the same time";
  EXPECT_GT(preemptions, 20) << "pages run out between rounds";
  EXPECT_GT(saved, 100) << "drafts save passes";
}

TEST_F(BeamBatchTest, AnUnfinishedBatchLeavesNothingCached) {
  make(72, 3);
  {
    std::mt19937 random(5);
    BeamBatch batch(*target_, *drafter_, {.width = 4, .spec_length = 2}, kRows, 72);
    for (int i = 0; i < 4; i++) {
      BeamRequest request = random_request(random);
      request.max_new_tokens = 14;
      batch.add(request);
    }
    batch.step();
    batch.step();
    EXPECT_GT(target_cache_->allocator().n_used(), 0);
  }
  expect_nothing_cached();
}

TEST_F(BeamBatchTest, WhatDoesNotFitAloneIsRefused) {
  make(72, 3);
  BeamBatch batch(*target_, *drafter_, {.width = 4, .spec_length = 2}, kRows, 72);
  const auto refusal = [&](BeamRequest request) -> std::string {
    try {
      batch.add(request);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  BeamRequest request{.prompt = {1, 2}, .max_new_tokens = 4, .beams = {.width = 4}};
  EXPECT_EQ(refusal({.prompt = {}, .max_new_tokens = 4}), "the prompt has no tokens");
  request.max_new_tokens = 16;
  EXPECT_EQ(
      refusal(request),
      "4 beams of 16 tokens after a prompt of 2 may need room for 78 tokens, and there is 72");
  request.max_new_tokens = 1;
  request.draft_width = 20;
  EXPECT_EQ(refusal(request), "4 beams and their drafts are 44 rows, and a pass has 40");
  request.draft_width = 3;
  EXPECT_EQ(refusal(request), "3 draft beams are fewer than 4 beams");
  EXPECT_TRUE(batch.idle());
}

}  // namespace
}  // namespace specdec
