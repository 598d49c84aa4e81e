// Stage 6's promise on the embedded pair: real logits, real texts, every kind of drafter, and stop
// texts that span tokens and rounds.
#include "common/speculation/lookup_drafter.h"
#include "common/speculation/ngram_model.h"
#include "common/speculation/random_drafter.h"
#include "stages/programs/cache/make_cache.h"
#include "tests/embedded_batch.h"

namespace specdec::batch {
namespace {

constexpr const char* kDrafters[] = {"llama", "self", "int8", "lookup", "bigram", "random"};

const LoadedModel& int8_copy() {
  static const LoadedModel model("target", 2, WeightFormat::kInt8);
  return model;
}

// How much memory an engine has. page_size kContiguous: stage 2's cache.
struct Sizes {
  int page_size = 16, draft_page_size = 16;
  int pages = 0, draft_pages = 0;  // 0: as many as max_batch requests may need
  EngineOptions options = {};
};

// A drafter by its name, with what it stands on.
struct DraftSide {
  DraftSide(std::string_view kind, int page_size, int pages, int max_batch) {
    const Embedded& e = embedded();
    if (kind == "lookup") {
      drafter = std::make_unique<LookupDrafter>(kPositions + 1, max_batch);
    } else if (kind == "random") {
      drafter = std::make_unique<RandomDrafter>(e.tokenizer.vocab_size());
    } else if (kind == "bigram") {
      ngrams = std::make_unique<NgramModel>(*e.target.backend, e.target.model.config().vocab_size,
                                            e.tokenizer.vocab_size(), 2, e.text, max_batch);
      drafter = std::make_unique<SamplingDrafter>(*ngrams, kPositions + 1, max_batch);
    } else {
      const LoadedModel& loaded = kind == "self"   ? e.target
                                  : kind == "int8" ? int8_copy()
                                                   : e.draft;
      llama = make_llama(loaded.model, page_size, pages, max_batch);
      drafter = std::make_unique<SamplingDrafter>(llama->llama, kPositions + 1, max_batch);
    }
  }
  KvCache* cache() const { return llama ? llama->cache.get() : nullptr; }

  std::unique_ptr<CachedLlama> llama;
  std::unique_ptr<NgramModel> ngrams;
  std::unique_ptr<Drafter> drafter;
};

Outcome alone(const BatchRequest& request, std::string_view kind) {
  CachedLlama target(embedded().target.model, 16, kPositions);
  DraftSide draft(kind, 16, 0, 1);
  return run_alone(target.llama, *draft.drafter, request, &embedded().tokenizer);
}

Outcome alone_greedily(const BatchRequest& request, std::string_view kind) {
  CachedLlama target(embedded().target.model, 16, kPositions);
  DraftSide draft(kind, 16, 0, 1);
  return run_alone_greedily(target.llama, *draft.drafter, request, &embedded().tokenizer);
}

struct LlamaEngine {
  LlamaEngine(std::string_view kind, const Sizes& sizes)
      : target(make_llama(embedded().target.model, sizes.page_size, sizes.pages,
                          sizes.options.max_batch)),
        draft(kind, sizes.draft_page_size, sizes.draft_pages, sizes.options.max_batch),
        engine({.target = target->llama,
                .target_cache = *target->cache,
                .drafter = *draft.drafter,
                .draft_cache = draft.cache(),
                .tokenizer = &embedded().tokenizer,
                .token_limit = embedded().tokenizer.vocab_size()},
               sizes.options) {}

  std::unique_ptr<CachedLlama> target;
  DraftSide draft;
  BatchEngine engine;
};

// ---- requests

// The request alone; one in three gets a stop text out of what it writes without.
Outcome alone_with_stop(std::mt19937& random, BatchRequest& request, std::string_view kind) {
  Outcome outcome = alone(request, kind);
  return add_stop(random, request, outcome.text) ? alone(request, kind) : outcome;
}

int least_pages(const std::vector<Arrival>& arrivals, int page_size) {
  int most = 0;
  for (const Arrival& a : arrivals) {
    const GenerationRequest& g = a.request.generation;
    most = std::max(
        most, static_cast<int>(g.prompt.size()) + g.max_new_tokens - 1 + a.request.spec_length);
  }
  return pages_for(most, page_size);
}

// Whether the workload preempted, shared a prefix and was ragged.
bool check_workload(std::mt19937& random, std::string_view kind) {
  const int K = between(random, 2, 5), B = between(random, 3, 6),
            n = between(random, 6, full() ? 16 : 8);
  const std::vector<TokenId> beginning = excerpt(random, 18);
  std::vector<Arrival> arrivals;
  std::vector<Outcome> want;
  for (int i = 0; i < n; i++) {
    arrivals.push_back({.request = random_request(random, beginning, K)});
    want.push_back(alone_with_stop(random, arrivals.back().request, kind));
  }
  random_times(random, arrivals);
  const int page_sizes[] = {1, 3, 16};
  Sizes sizes{.page_size = one_of(random, page_sizes),
              .draft_page_size = one_of(random, page_sizes)};
  sizes.pages = least_pages(arrivals, sizes.page_size) * between(random, 5, 7) / 4;
  sizes.draft_pages = least_pages(arrivals, sizes.draft_page_size) * between(random, 5, 9) / 4;
  sizes.options = {.max_batch = B,
                   .spec_length = K,
                   .token_budget = B * (K + 1) + between(random, 0, 30),
                   .prefill_chunk = between(random, 3, 30),
                   .prefix_cache = true,
                   .check_invariants = true};
  LlamaEngine on(kind, sizes);
  BatchRun run(on.engine, arrivals);
  run.run();
  for (std::size_t i = 0; i < arrivals.size() && !::testing::Test::HasFatalFailure(); i++) {
    SCOPED_TRACE(::testing::Message() << "arrival " << i);
    expect_as_alone(run.served()[i], want[i]);
    if (is_plainly_greedy(arrivals[i].request)) {
      SCOPED_TRACE("stage 4");
      expect_same_tokens(alone_greedily(arrivals[i].request, kind), want[i]);
    }
  }
  return run.preempted() && run.was_ragged() && run.shared_a_prefix();
}

class BatchSameTextLlama : public ::testing::TestWithParam<const char*> {};

TEST_P(BatchSameTextLlama, EveryRequestGetsWhatItGetsAlone) {
  // That preempt, share a prefix and are ragged; 200 in all. Blind guesses are seldom ragged.
  const unsigned wanted = !full() ? 1 : GetParam() == std::string_view("random") ? 20 : 45;
  unsigned counted = 0;
  for (unsigned i = 0; counted < wanted && i < 6 * wanted + 4 && !HasFailure(); i++) {
    SCOPED_TRACE(::testing::Message() << "workload " << i);
    std::mt19937 random(i);
    counted += check_workload(random, GetParam()) ? 1 : 0;
  }
  EXPECT_EQ(counted, wanted) << "that preempted, shared a prefix and were ragged";
}

INSTANTIATE_TEST_SUITE_P(Drafters, BatchSameTextLlama, ::testing::ValuesIn(kDrafters),
                         [](const auto& test) { return std::string(test.param); });

// ---- sixteen at a time

class SixteenRequests : public ::testing::Test {
 protected:
  static constexpr int K = 5;

  static void SetUpTestSuite() {
    std::mt19937 random(16);
    const std::vector<TokenId> beginning = excerpt(random, 18);
    for (unsigned i = 0; i < 16; i++) {
      BatchRequest request = random_request(random, beginning, K);
      request.generation.max_new_tokens = 24;
      request.context_limit = kPositions;
      request.spec_length = i % 4 == 3 ? 3 : K;
      if (i % 2 == 0) request.speculation = {};
      arrivals_.push_back({.request = request});
      want_.push_back(alone(request, "llama"));
    }
  }

  static void serve(const Sizes& sizes, bool preempts) {
    LlamaEngine on("llama", sizes);
    BatchRun run(on.engine, arrivals_);
    run.run();
    EXPECT_EQ(run.preempted(), preempts);
    EXPECT_TRUE(run.was_ragged() || preempts);
    if (!preempts) {
      EXPECT_EQ(on.engine.stats().peak_rounds, 16) << "all at a time";
    }
    for (std::size_t i = 0; i < arrivals_.size(); i++) {
      SCOPED_TRACE(::testing::Message() << "request " << i);
      expect_as_alone(run.served()[i], want_[i]);
    }
  }
  static EngineOptions options() {
    return {.max_batch = 16, .spec_length = K, .token_budget = 600, .check_invariants = true};
  }

  static inline std::vector<Arrival> arrivals_;
  static inline std::vector<Outcome> want_;
};

TEST_F(SixteenRequests, WriteWhatTheyWriteAloneInContiguousCaches) {
  serve({.page_size = kContiguous, .draft_page_size = kContiguous, .options = options()}, false);
}

TEST_F(SixteenRequests, WriteWhatTheyWriteAloneInPages) { serve({.options = options()}, false); }

TEST_F(SixteenRequests, WriteWhatTheyWriteAloneWithSoFewPagesThatTheyTakeTurns) {
  const int pages = 3 * least_pages(arrivals_, 3);
  serve({.page_size = 3,
         .draft_page_size = 3,
         .pages = pages,
         .draft_pages = pages,
         .options = options()},
        true);
}

// ---- stop texts

// Each gets a stop text that begins before its last round and ends in it.
TEST(BatchStopTexts, AreFoundAcrossTokensAndRounds) {
  std::mt19937 random(4);
  std::vector<Arrival> arrivals;
  std::vector<Outcome> want;
  int spanning = 0;
  for (int i = 0; i < 6; i++) {
    BatchRequest request = greedy_request(random, 3);
    const std::string stop = text_across_rounds(alone(request, "llama"));
    if (stop.empty()) continue;
    request.generation.stop = {stop};
    arrivals.push_back({.request = request});
    want.push_back(alone(request, "llama"));
    spanning += ends_before_its_last_round(want.back()) ? 1 : 0;
  }
  EXPECT_GE(spanning, 3) << "begin before the last round, or nothing was tested";
  LlamaEngine on("llama",
                 {.options = {.max_batch = 4, .spec_length = 3, .check_invariants = true}});
  BatchRun run(on.engine, arrivals);
  run.run();
  for (std::size_t i = 0; i < arrivals.size(); i++) {
    SCOPED_TRACE(::testing::Message()
                 << "stop before \"" << arrivals[i].request.generation.stop[0] << '"');
    expect_as_alone(run.served()[i], want[i]);
    EXPECT_EQ(run.served()[i].outcome.text.find(arrivals[i].request.generation.stop[0]),
              std::string::npos)
        << "nothing of the stop text is delivered";
  }
}

}  // namespace
}  // namespace specdec::batch
