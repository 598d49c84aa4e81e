// Searches and texts in one engine: each finds what it finds alone, whatever is admitted,
// preempted, cancelled or finished beside it, and nothing is left in the caches.
#include "stages/10_beam_search/rounds_with_beams.h"

#include <random>

#include "common/base/check.h"
#include "common/forwarding_model.h"
#include "stages/03_paged_kv_cache/paged_kv_cache.h"
#include "tests/batch_fixture.h"
#include "tests/paged_table_model.h"
#include "tests/table_model.h"
#include "tests/unit/stages/10_beam_search/beam_fixture.h"

namespace specdec {
namespace {

using batch::between;
using batch::one_in;

constexpr int kVocabulary = 6, kBudget = 20, kTokens = 72;
constexpr KvShape kShape{.n_layers = 1, .n_kv_heads = 1, .head_dim = 1};

ContextTable random_table(unsigned seed) {
  std::mt19937 random(seed);
  return ContextTable(kVocabulary, [&](int) { return random_weights(kVocabulary, 0, random); });
}

BatchRequest search(BatchRequest request, const BeamOptions& beams, int draft_width) {
  request.make_extension = [=] { return std::make_shared<BeamsOfRequest>(beams, draft_width); };
  return request;
}

const BeamsOfRequest& beams_of(const RequestResult& result) {
  return dynamic_cast<const BeamsOfRequest&>(*result.extension);
}

// A model whose cache is full in some passes.
class FullAtTimes final : public ForwardingModel {
 public:
  using ForwardingModel::ForwardingModel;
  void fails(int pass, int count) {
    first_ = passes_ + pass;
    end_ = first_ + count;
  }

  using LanguageModel::forward;
  void forward(std::span<const Segment> batch, const Outputs& out) override {
    passes_++;
    if (first_ <= passes_ && passes_ < end_) throw CacheFull("full");
    ForwardingModel::forward(batch, out);
  }

 private:
  int passes_ = 0, first_ = 0, end_ = 0;
};

// An engine whose target and draft are tables in caches of a few pages.
class RoundsWithBeamsTest : public ::testing::Test {
 protected:
  RoundsWithBeamsTest()
      : backend_(make_plain_backend()), table_(random_table(1)), other_(random_table(2)) {}

  void make(int page_size, bool prefix_cache = true) {
    engine_.reset();
    target_cache_ =
        std::make_unique<PagedKvCache>(*backend_, kShape, kTokens / page_size, page_size);
    draft_cache_ =
        std::make_unique<PagedKvCache>(*backend_, kShape, kTokens / page_size, page_size);
    target_ = std::make_unique<PagedTableModel>(*target_cache_, table_);
    draft_ = std::make_unique<PagedTableModel>(*draft_cache_, other_);
    failing_target_ = std::make_unique<FullAtTimes>(*target_);
    failing_draft_ = std::make_unique<FullAtTimes>(*draft_);
    drafter_ = std::make_unique<SamplingDrafter>(*failing_draft_, 200, 4);
    const ServedModels models{
        .target = *failing_target_,
        .target_cache = *target_cache_,
        .drafter = *drafter_,
        .draft_cache = draft_cache_.get(),
        .token_limit = kVocabulary,
        .make_rounds = [this](auto&&... arguments) {
          return std::make_unique<RoundsWithBeams>(
              arguments..., std::make_unique<ModelBeamDrafter>(*failing_draft_, kBudget), kBudget);
        }};
    engine_ = std::make_unique<BatchEngine>(models, EngineOptions{.max_batch = 4,
                                                                  .spec_length = 2,
                                                                  .token_budget = kBudget,
                                                                  .prefill_chunk = 5,
                                                                  .prefix_cache = prefix_cache,
                                                                  .check_invariants = true,
                                                                  .clock = [] { return 0.0; }});
  }

  static BatchRequest random_request(std::mt19937& random) {
    BatchRequest request;
    for (int i = between(random, 1, 12); i > 0; i--) {
      request.generation.prompt.push_back(TokenId(random() % kVocabulary));
    }
    request.generation.max_new_tokens = between(random, 1, 14);
    if (one_in(random, 2)) request.generation.eos_ids = {0};
    request.seed = random();
    request.spec_length = between(random, 0, 2);
    request.context_limit = 200;
    if (one_in(random, 3)) {
      request.speculation.sampling.temperature = 0.8;
      return request;
    }
    const BeamOptions beams{.width = between(random, 1, 3),
                            .length_penalty = between(random, 0, 2) / 2.0,
                            .early_stopping = static_cast<EarlyStopping>(random() % 3)};
    return search(request, beams, beams.width == 1 ? 1 : 4);
  }

  FoundBeams searched_alone(const BatchRequest& request, const BeamOptions& beams) const {
    TableModel target(kVocabulary, table_.row_of());
    return search_plainly(target, {.prompt = request.generation.prompt,
                                   .max_new_tokens = request.generation.max_new_tokens,
                                   .eos_ids = request.generation.eos_ids,
                                   .beams = beams});
  }
  batch::Outcome written_alone(const BatchRequest& request) const {
    TableModel target(kVocabulary, table_.row_of()), draft(kVocabulary, other_.row_of());
    SamplingDrafter drafter(draft, 200);
    return batch::run_alone(target, drafter, request);
  }

  // Compares a result with what the request comes to alone. Returns how many passes drafts saved.
  int expect_as_alone(const RequestResult& result, const BatchRequest& request) const {
    const RunStats& run = result.stats.run;
    if (!request.make_extension) {
      const batch::Outcome want = written_alone(request);
      EXPECT_EQ(result.tokens, want.tokens);
      batch::expect_same_counts(run, want.stats);
      return 0;
    }
    const BeamsOfRequest& beams = beams_of(result);
    const FoundBeams want = searched_alone(request, beams.options);
    EXPECT_EQ(beams.hypotheses, want.hypotheses);
    EXPECT_EQ(result.tokens, want.hypotheses.front().tokens);
    EXPECT_EQ(run.emitted, std::ssize(want.rounds)) << "a token is a step";
    return static_cast<int>(run.emitted - run.rounds);
  }

  void expect_nothing_cached() {
    engine_->forget_prefixes();
    EXPECT_EQ(target_cache_->allocator().n_used(), 0);
    EXPECT_EQ(draft_cache_->allocator().n_used(), 0);
    EXPECT_TRUE(target_cache_->sequences().empty() && draft_cache_->sequences().empty());
  }

  std::unique_ptr<Backend> backend_;
  ContextTable table_, other_;
  std::unique_ptr<PagedKvCache> target_cache_, draft_cache_;
  std::unique_ptr<PagedTableModel> target_, draft_;
  std::unique_ptr<FullAtTimes> failing_target_, failing_draft_;
  std::unique_ptr<SamplingDrafter> drafter_;
  std::unique_ptr<BatchEngine> engine_;
};

TEST_F(RoundsWithBeamsTest, EachFindsWhatItFindsAlone) {
  int preempted = 0, saved = 0, most = 0, cancelled = 0;
  for (unsigned seed = 0; seed < 240; seed++) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    make(std::vector{1, 3, 8}[seed % 3], seed % 2 == 0);
    std::vector<BatchRequest> requests;
    for (int step = 0; step < 8 || !engine_->idle(); step++) {
      if (step < 8) {
        requests.push_back(random_request(random));
        EXPECT_EQ(engine_->add_request(requests.back()), step);
      }
      if (one_in(random, 12)) engine_->cancel(RequestId(random() % requests.size()));
      const StepReport& report = engine_->step();
      EXPECT_FALSE(report.given_up) << to_text(report);
      EXPECT_LE(report.rows(), kBudget);
      most = std::max(most, report.rounds());
    }
    for (std::size_t i = 0; i < requests.size(); i++) {
      const RequestResult result = engine_->take_result(RequestId(i));
      if (result.finish_reason == FinishReason::kCancelled) {
        cancelled++;
        continue;
      }
      saved += expect_as_alone(result, requests[i]);
      if (requests[i].make_extension) preempted += result.stats.preemptions;
    }
    expect_nothing_cached();
  }
  EXPECT_GT(most, 2) << "several run at the same time";
  EXPECT_GT(preempted, 10) << "searches lose their pages between rounds";
  EXPECT_GT(saved, 300) << "drafts save passes";
  EXPECT_GT(cancelled, 10);
}

// A beam of one is greedy speculation, in the same rounds, beside the same text by stage 6.
TEST_F(RoundsWithBeamsTest, OneBeamIsGreedySpeculationRoundForRound) {
  for (unsigned seed = 0; seed < 40; seed++) {
    SCOPED_TRACE(seed);
    make(3);
    std::mt19937 random(seed);
    BatchRequest text = random_request(random);
    text.generation.eos_ids.clear();  // which stage 6 drafts like any token
    text.make_extension = {};
    text.speculation = {};
    text.spec_length = 1 + int(seed % 2);
    engine_->add_request(text);
    engine_->add_request(search(text, {.width = 1}, 1));
    while (!engine_->idle()) {
      std::map<RequestId, const StepReport::Part*> parts;
      const StepReport& report = engine_->step();
      for (const StepReport::Part& part : report.parts) parts[part.id] = &part;
      if (parts.size() < 2 || !parts[0]->is_round()) continue;
      // The limit ends the round there within its drafts.
      if (std::ranges::find(report.finished, 0) != report.finished.end()) continue;
      EXPECT_EQ(parts[0]->rows, parts[1]->rows);
      EXPECT_EQ(parts[0]->round.drafted, parts[1]->round.drafted);
      EXPECT_EQ(parts[0]->round.accepted, parts[1]->round.accepted);
      EXPECT_EQ(parts[0]->length, parts[1]->length);
    }
    const RequestResult want = engine_->take_result(0), got = engine_->take_result(1);
    EXPECT_EQ(got.tokens, want.tokens);
    EXPECT_EQ(got.finish_reason, want.finish_reason);
    EXPECT_EQ(got.stats.run.rounds, want.stats.run.rounds);
    expect_nothing_cached();
  }
}

// A cache that is full despite the plan, in one pass or in two: the step is undone, and all go on.
TEST_F(RoundsWithBeamsTest, AStepThatFailsChangesNothing) {
  int given_up = 0;
  for (int fault = 1; fault < 60; fault++) {
    SCOPED_TRACE(fault);
    make(1 + fault % 3, fault % 4 == 0);
    std::mt19937 random(unsigned(fault) / 7);
    (fault % 2 == 0 ? *failing_target_ : *failing_draft_).fails(fault / 2 + 1, 1 + fault % 5 / 4);
    std::vector<BatchRequest> requests;
    for (int i = 0; i < 4; i++) {
      requests.push_back(random_request(random));
      requests.back().generation.max_new_tokens = 12;
      engine_->add_request(requests.back());
    }
    while (!engine_->idle()) given_up += engine_->step().given_up ? 1 : 0;
    for (std::size_t i = 0; i < requests.size(); i++) {
      const RequestResult result = engine_->take_result(RequestId(i));
      if (result.finish_reason != FinishReason::kError) expect_as_alone(result, requests[i]);
    }
    expect_nothing_cached();
  }
  EXPECT_GT(given_up, 40);
}

TEST_F(RoundsWithBeamsTest, AnUnfinishedBatchLeavesNothingCached) {
  make(3, false);
  std::mt19937 random(5);
  for (int i = 0; i < 6; i++) {
    BatchRequest request = random_request(random);
    request.generation.max_new_tokens = 14;
    engine_->add_request(request);
  }
  for (int i = 0; i < 4; i++) engine_->step();
  EXPECT_GT(target_cache_->allocator().n_used(), 0);
  engine_.reset();
  EXPECT_EQ(target_cache_->allocator().n_used(), 0);
  EXPECT_EQ(draft_cache_->allocator().n_used(), 0);
}

TEST_F(RoundsWithBeamsTest, WhatDoesNotFitAloneIsRefused) {
  make(3);
  BatchRequest request;
  request.generation = {.prompt = {1, 2}, .max_new_tokens = 24};
  request.spec_length = 2;
  const auto refusal = [&](int width, int draft_width) -> std::string {
    try {
      engine_->add_request(search(request, {.width = width}, draft_width));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(4, 4),
            "the request caches up to 105 tokens in the target, 35 pages of 3, and there are 24: "
            "raise --pages or reduce --max-new-tokens");
  request.generation.max_new_tokens = 1;
  EXPECT_EQ(refusal(4, 20),
            "4 beams and 20 x 2 drafts are 44 rows, and a pass has 20: raise --token-budget");
  EXPECT_TRUE(engine_->idle());
}

}  // namespace
}  // namespace specdec
