// Stage 6's promise on the embedded pair: real logits, real texts, every kind of drafter, and stop
// texts that span tokens and rounds.
#include "common/speculation/lookup_drafter.h"
#include "common/speculation/ngram_model.h"
#include "common/speculation/random_drafter.h"
#include "stages/programs/cache/make_cache.h"
#include "tests/embedded_workload.h"

namespace specdec::batch {
namespace {

constexpr const char* kDrafters[] = {"llama", "self", "int8", "lookup", "bigram", "random"};

const LoadedModel& int8_copy() {
  static const LoadedModel model("target", 2, WeightFormat::kInt8);
  return model;
}

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

// Chains by a drafter.
struct ChainWay {
  std::string_view kind;
  RoundCapacity capacity = Capacity::of_chain;

  static int levels(std::mt19937& random) { return between(random, 2, 5); }
  void adjust(BatchRequest& /*request*/) const {}
  Outcome alone(const BatchRequest& request) const {
    CachedLlama target(embedded().target.model, 16, kPositions);
    DraftSide draft(kind, 16, 0, 1);
    return run_alone(target.llama, *draft.drafter, request, &embedded().tokenizer);
  }
  Outcome alone_greedily(const BatchRequest& request) const {
    CachedLlama target(embedded().target.model, 16, kPositions);
    DraftSide draft(kind, 16, 0, 1);
    return run_alone_greedily(target.llama, *draft.drafter, request, &embedded().tokenizer);
  }
  bool serve(const Sizes& sizes, const std::vector<Arrival>& arrivals,
             const std::vector<Outcome>& want) const {
    LlamaEngine on(kind, sizes);
    BatchRun run(on.engine, arrivals);
    run.run();
    for (std::size_t i = 0; i < arrivals.size() && !::testing::Test::HasFatalFailure(); i++) {
      SCOPED_TRACE(::testing::Message() << "arrival " << i);
      expect_as_alone(run.served()[i], want[i]);
      if (is_plainly_greedy(arrivals[i].request)) {
        SCOPED_TRACE("stage 4");
        expect_same_tokens(alone_greedily(arrivals[i].request), want[i]);
      }
    }
    return run.preempted() && run.was_ragged() && run.shared_a_prefix();
  }
};

class BatchSameTextLlama : public ::testing::TestWithParam<const char*> {};

TEST_P(BatchSameTextLlama, EveryRequestGetsWhatItGetsAlone) {
  // 200 in all. Blind guesses are seldom ragged.
  const bool blind = GetParam() == std::string_view("random");
  check_workloads(ChainWay{GetParam()}, !full() ? 1 : blind ? 20 : 45);
}

INSTANTIATE_TEST_SUITE_P(Drafters, BatchSameTextLlama, ::testing::ValuesIn(kDrafters),
                         [](const auto& test) { return std::string(test.param); });

// ---- stop texts

TEST(BatchStopTexts, AreFoundAcrossTokensAndRounds) {
  check_stops_across_rounds(ChainWay{"llama"}, 3, 0);
}

}  // namespace
}  // namespace specdec::batch
