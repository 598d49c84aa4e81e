// What the engine that is made for requests takes, against what is allocated.
#include "stages/programs/batch/memory_plan.h"

#include "common/base/json_value.h"
#include "common/inflation/inflated_config.h"
#include "common/inflation/inflated_weights.h"
#include "stages/programs/batch/batch_session.h"
#include "stages/programs/cache/make_cache.h"
#include "tests/unit/common/counting_backend.h"
#include "tests/unit/stages/programs/batch/sized_requests.h"

namespace specdec {
namespace {

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
                              plan.draft_cache + plan.target_rows + plan.logits +
                              plan.distributions + plan.activations);
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
               "reduce --max-new-tokens or shorten the prompt");
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
  const auto angles = [](const LlamaModel& of, int rows) {
    return static_cast<std::size_t>(rows * of.config().head_dim) * sizeof(float);
  };
  EXPECT_EQ(plan.activations + angles(target, sizes.token_budget) +
                angles(draft, LlamaOptions().max_pass_rows),
            backend.taken_by([&] {
              model.emplace(target, *cache, LlamaOptions{.max_pass_rows = sizes.token_budget});
              draft_model.emplace(draft, *draft_cache);
            }))
      << "but for the angles of a pass, which are small";
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
                  .target_rows = 7'000'000,
                  .logits = 400'000,
                  .distributions = 500'000,
                  .activations = 600'000,
                  .sizes = {.capacity = {.requests = 4, .context = 33, .pages = 8},
                            .token_budget = 256,
                            .pages = 7,
                            .draft_is_model = true},
                  .page_size = 16,
                  .longest_fit = 2};
  EXPECT_EQ(plan.to_text(),
            "weights: target 2.50 GB, draft 1.0 MB\n"
            "caches: target 20.0 MB (7 pages of 16 tokens), draft 3.0 MB (8 pages), rows for the "
            "heads 7.0 MB\n"
            "scratch: logits 0.4 MB, distributions of drafts 0.5 MB, activations 0.6 MB\n"
            "in all 2.53 GB; 4 requests at a time, 2 of the longest (33 tokens) fit\n");
  EXPECT_EQ(plan.to_json()["total"], 2'532'500'000u);
  EXPECT_EQ(plan.to_json().size(), 9u);
  plan.sizes.draft_is_model = false;
  EXPECT_THAT(plan.to_text(), ::testing::HasSubstr("draft 3.0 MB, rows")) << "of a feature layer";
  plan.sizes.available = 4'000'000'000;
  plan.draft_weights = plan.draft_cache = plan.target_rows = 0;
  EXPECT_THAT(plan.to_text(), ::testing::HasSubstr("draft none of its own\n"));
  EXPECT_THAT(plan.to_text(), ::testing::HasSubstr("(7 pages of 16 tokens)\n"));
  EXPECT_THAT(plan.to_text(), ::testing::HasSubstr("in all 2.52 GB, 4.00 GB were available; "));
}

}  // namespace
}  // namespace specdec
