// How large an engine is made for its requests, and what that takes, against what is allocated.
#include "stages/programs/batch/memory_plan.h"

#include "common/base/json_value.h"
#include "common/inflation/inflated_config.h"
#include "common/inflation/inflated_weights.h"
#include "stages/programs/batch/batch_session.h"
#include "stages/programs/cache/make_cache.h"
#include "tests/unit/common/memory_backend.h"
#include "tests/unit/stages/06_batched_verification/batch_engine_fixture.h"

namespace specdec {
namespace {

// It has only memory, and counts what is taken.
class CountingBackend final : public MemoryBackend {
 public:
  void* allocate(std::size_t bytes) override {
    allocated += bytes;
    return MemoryBackend::allocate(bytes);
  }
  std::unique_ptr<const WeightMatrix> load_matrix(std::span<const HostMatrix> parts,
                                                  WeightFormat) override {
    int rows = 0;
    std::size_t bytes = 0;
    for (const HostMatrix& part : parts) {
      rows += part.rows;
      bytes += part.bytes.size();
    }
    weights += bytes;
    return std::make_unique<Weights>(rows, parts[0].width, bytes);
  }

  // What `action` allocates.
  template <typename Action>
  std::size_t taken_by(Action&& action) {
    const std::size_t before = allocated;
    action();
    return allocated - before;
  }

  std::size_t allocated = 0, weights = 0;

 private:
  struct Weights final : WeightMatrix {
    Weights(int rows, int width, std::size_t bytes) : WeightMatrix(rows, width, bytes) {}
  };
};

// Of `prompt` tokens; to be followed by so many.
BatchRequest request_of(int prompt, int max_new_tokens, int K, int context_limit = 1000) {
  BatchRequest request = greedy_request(some_prompt(prompt, prompt), max_new_tokens, K);
  request.context_limit = context_limit;
  return request;
}

RunOptions with_pages_of(int page_size, int draft_page_size) {
  RunOptions options;
  options.page_size = page_size;
  options.draft_page_size = draft_page_size;
  return options;
}

BatchSizes sizes_for(const RunOptions& options, const std::vector<BatchRequest>& requests) {
  return batch_sizes(sized_for(requests, options), 1000);
}

// ---- sizes

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

// ---- memory

// A session of six requests, as many at a time as `options` say.
std::unique_ptr<BatchSession> session_of(RunOptions options, int K) {
  options.stage = 6;
  options.threads = 1;
  std::vector<BatchRequest> requests;
  for (int i = 0; i < 6; i++) requests.push_back(request_of(5 + i, 20, K));
  return std::make_unique<BatchSession>(sized_for(requests, options), open_model(options.target));
}

void expect_caches_as_planned(BatchSession& session) {
  const MemoryPlan& plan = session.memory;
  EXPECT_EQ(plan.target_cache, session.target.cache->memory().bytes());
  const KvCache* draft = session.draft.cache();
  EXPECT_EQ(plan.draft_cache, draft != nullptr ? draft->memory().bytes() : 0u);
  EXPECT_EQ(plan.draft_weights > 0, session.draft.own_model() != nullptr);
  EXPECT_EQ(plan.total(), plan.target_weights + plan.draft_weights + plan.target_cache +
                              plan.draft_cache + plan.logits + plan.distributions +
                              plan.activations);
  EXPECT_EQ(session.engine.target_pool().n_pages(), plan.sizes.pages);
  if (draft != nullptr) {
    EXPECT_EQ(session.engine.draft_pool().n_pages(), plan.sizes.capacity.pages);
  }
}

TEST(MemoryPlanTest, CachesAreAsLargeAsPlanned) {
  for (const auto cache : {CacheKind::kPaged, CacheKind::kContiguous}) {
    for (const auto kind : {DraftKind::kLlama, DraftKind::kSelf, DraftKind::kLookup}) {
      for (const int K : {0, 4}) {
        SCOPED_TRACE(fmt::format("{}, {}, K = {}", name_of(cache), name_of(kind), K));
        RunOptions options = with_pages_of(16, 4);
        options.cache = cache;
        options.draft_kind = kind;
        options.max_batch = 4;
        expect_caches_as_planned(*session_of(options, K));
      }
    }
  }
}

TEST(MemoryPlanTest, CachesAreAsLargeAsTheOptionsSay) {
  RunOptions options = with_pages_of(8, 2);
  options.pages = 21;
  options.draft_pages = 44;
  const auto session = session_of(options, 4);
  expect_caches_as_planned(*session);
  options.kv_type = KvType::kBF16;
  const auto rounded = session_of(options, 4);
  expect_caches_as_planned(*rounded);
  EXPECT_EQ(2 * rounded->memory.target_cache, session->memory.target_cache);
  EXPECT_EQ(2 * rounded->memory.draft_cache, session->memory.draft_cache);
  EXPECT_EQ(session->memory.page_size, 8);
  EXPECT_EQ(session->memory.longest_fit, 4) << "of 10 + 20 - 2 + 4 + 1 = 33 tokens, 5 pages";
}

// As for a socket: the session is made before anything is asked.
TEST(BatchSessionTest, ServesWhateverFitsItsOptionsAndRefusesTheRestOneByOne) {
  RunOptions options = with_pages_of(16, 16);
  options.stage = 6;
  options.threads = 1;
  options.max_batch = 2;
  options.spec_length = 4;
  options.max_context = 40;
  options.page_size = options.draft_page_size = 8;
  BatchSession session(options, open_model(options.target));
  BatchEngine& engine = session.engine;
  EXPECT_ERROR(engine.add_request(request_of(9, 5, 5)),
               "--spec-length 5: this engine has room for 0 to 4");
  EXPECT_ERROR(engine.add_request(request_of(30, 11, 4)),
               "the request caches up to 44 tokens, and this engine has memory for requests of 40: "
               "raise --max-context or reduce --max-new-tokens");
  std::vector<RequestId> ids;
  for (int i = 0; i < 3; i++) ids.push_back(engine.add_request(request_of(30, 7, 4)));
  for (int i = 0; i < 3; i++) ids.push_back(engine.add_request(request_of(3, 35, 2, 40)));
  while (!engine.idle()) engine.step();
  EXPECT_EQ(engine.stats().preemptions, 0) << "there are pages for two texts of 40 tokens";
  for (const RequestId id : ids) EXPECT_NE(engine.take_result(id).tokens.size(), 0u);
}

// What the parts allocate that the plan speaks of, on a backend that counts.
TEST(MemoryPlanTest, SumsAreWhatIsAllocated) {
  CountingBackend backend;
  const LlamaModel target(Checkpoint(embedded_target()), backend);
  const std::size_t target_weights = std::exchange(backend.weights, 0);
  const LlamaModel draft(Checkpoint(embedded_draft()), backend);
  const RunOptions options = with_pages_of(16, 4);
  const BatchSizes sizes =
      sizes_for(options, std::vector{request_of(40, 20, 4), request_of(9, 30, 3)});
  const MemoryPlan plan = memory_plan(options, sizes, target, &draft);
  EXPECT_EQ(plan.target_weights, target_weights);
  EXPECT_EQ(plan.draft_weights, backend.weights);

  std::unique_ptr<KvCache> cache, draft_cache;
  const CacheLayout layout{.page_size = 16, .pages = sizes.pages};
  const CacheLayout draft_layout{.page_size = 4, .pages = sizes.capacity.pages};
  EXPECT_EQ(plan.target_cache, backend.taken_by([&] { cache = make_cache(target, layout); }));
  EXPECT_EQ(plan.draft_cache,
            backend.taken_by([&] { draft_cache = make_cache(draft, draft_layout); }));

  std::optional<Llama> model, draft_model;
  const auto small = [](const LlamaModel& of, int rows, int pages) {
    return static_cast<std::size_t>(rows * (of.config().head_dim + 6) + pages) * sizeof(float);
  };
  EXPECT_EQ(plan.activations + small(target, sizes.token_budget, sizes.pages) +
                small(draft, LlamaOptions().max_pass_rows, sizes.capacity.pages),
            backend.taken_by([&] {
              model.emplace(target, *cache, LlamaOptions{.max_pass_rows = sizes.token_budget});
              draft_model.emplace(draft, *draft_cache);
            }))
      << "but for the angles and lists of a pass, which are small";
  const int B = sizes.capacity.requests, K = sizes.spec_length;
  EXPECT_EQ(plan.logits, backend.taken_by([&] {
    const RaggedPass pass(*model, B, B * (K + 1));
    const SamplingDrafter drafter(*draft_model, 100, B);
  }));
  Drafts drafts(K, model->vocab_size());
  EXPECT_EQ(plan.distributions, static_cast<std::size_t>(B * K) * drafts.next_probs().size_bytes());
}

TEST(MemoryPlanTest, ADraftThatIsTheTargetHasNoWeightsOfItsOwn) {
  CountingBackend backend;
  const LlamaModel target(Checkpoint(embedded_target()), backend);
  const RunOptions options;
  const BatchSizes sizes = sizes_for(options, std::vector{request_of(40, 20, 4)});
  const MemoryPlan self = memory_plan(options, sizes, target, &target);
  EXPECT_EQ(self.draft_weights, 0u);
  EXPECT_GT(self.draft_cache, 0u);
  const MemoryPlan none = memory_plan(options, sizes, target, nullptr);
  EXPECT_EQ(none.draft_weights, 0u);
  EXPECT_EQ(none.draft_cache, 0u);
  EXPECT_EQ(none.draft_cache, 0u);
  EXPECT_EQ(none.target_weights, self.target_weights);
  EXPECT_LT(none.activations, self.activations);
  EXPECT_LT(none.logits, self.logits);
}

TEST(MemoryPlanTest, ASelfDraftAsInt8HasWeightsOfItsOwn) {
  RunOptions options = with_pages_of(16, 4);
  options.draft_kind = DraftKind::kSelf;
  options.draft_weights = WeightFormat::kInt8;
  const auto session = session_of(options, 4);
  expect_caches_as_planned(*session);
  const auto& plan = session->memory;
  const double stored = static_cast<double>(plan.target_weights);
  EXPECT_GE(static_cast<double>(plan.draft_weights), 0.5 * stored);
  EXPECT_LE(static_cast<double>(plan.draft_weights), 0.52 * stored) << "of bf16, and the scales";
}

// The draft's vocabulary may be padded to more rows than the target's.
TEST(MemoryPlanTest, TheDraftsLogitsAreAsWideAsItsVocabulary) {
  CountingBackend backend;
  const Checkpoint checkpoint(embedded_draft());
  const LlamaModel target(Checkpoint(embedded_target()), backend), draft(checkpoint, backend);
  const LlamaModel padded(
      InflatedWeights(checkpoint, inflated_config(checkpoint.config(), "14m", "--inflate-draft"),
                      2),
      backend);
  const RunOptions options;
  const BatchSizes sizes = sizes_for(options, std::vector{request_of(40, 20, 4)});
  EXPECT_EQ(memory_plan(options, sizes, target, &padded).logits -
                memory_plan(options, sizes, target, &draft).logits,
            std::size_t{49152 - 4096} * sizeof(float));
}

TEST(MemoryPlanTest, SoManyOfTheLongestFit) {
  CountingBackend backend;
  const LlamaModel target(Checkpoint(embedded_target()), backend);
  RunOptions options;
  options.max_batch = 4;
  const std::vector<BatchRequest> requests(9, request_of(40, 20, 4));  // 63 tokens, 4 pages
  const auto fit = [&] {
    return memory_plan(options, sizes_for(options, requests), target, nullptr).longest_fit;
  };
  EXPECT_EQ(fit(), 4);
  for (const auto& [pages, n] : std::map<int, int>{{3, 0}, {4, 1}, {15, 3}, {16, 4}, {90, 4}}) {
    options.pages = pages;
    EXPECT_EQ(fit(), n) << pages << " pages";
  }
  options.cache = CacheKind::kContiguous;
  EXPECT_EQ(fit(), 4) << "a stretch for each";
}

TEST(MemoryPlanTest, IsSaidInTextAndJson) {
  MemoryPlan plan{.target_weights = 2'500'000'000,
                  .draft_weights = 1'000'000,
                  .target_cache = 20'000'000,
                  .draft_cache = 3'000'000,
                  .logits = 400'000,
                  .distributions = 500'000,
                  .activations = 600'000,
                  .sizes = {.capacity = {.requests = 4, .context = 33, .pages = 8},
                            .token_budget = 256,
                            .pages = 7},
                  .page_size = 16,
                  .longest_fit = 2};
  EXPECT_EQ(plan.to_text(),
            "weights: target 2.50 GB, draft 1.0 MB\n"
            "caches: target 20.0 MB (7 pages of 16 tokens), draft 3.0 MB (8 pages)\n"
            "scratch: logits 0.4 MB, distributions of drafts 0.5 MB, activations 0.6 MB\n"
            "in all 2.53 GB; 4 requests at a time, 2 of the longest (33 tokens) fit\n");
  EXPECT_EQ(plan.to_json()["total"], 2'525'500'000u);
  EXPECT_EQ(plan.to_json().size(), 8u);
  plan.sizes.available = 4'000'000'000;
  plan.draft_weights = plan.draft_cache = 0;
  EXPECT_THAT(plan.to_text(), ::testing::HasSubstr("draft none of its own\n"));
  EXPECT_THAT(plan.to_text(), ::testing::HasSubstr("(7 pages of 16 tokens)\n"));
  EXPECT_THAT(plan.to_text(), ::testing::HasSubstr("in all 2.52 GB, 4.00 GB were available; "));
}

}  // namespace
}  // namespace specdec
