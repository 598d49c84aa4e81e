#pragma once
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "stages/02_contiguous_kv_cache/contiguous_kv_cache.h"
#include "stages/05_rejection_sampling/sampling_drafter.h"
#include "stages/06_batched_verification/batch_engine.h"
#include "tests/paged_table_model.h"
#include "tests/test_support.h"

namespace specdec {

// The size of a cache. page_size kRegions: a contiguous cache with `pages` regions.
struct PoolSize {
  static constexpr int kRegions = 0;
  static constexpr int kRegionLength = 64;

  int pages = 64, page_size = 3;
};

// Two tables over a small vocabulary that mostly agree, so that rounds accept any number of drafts.
struct Tables {
  static constexpr int kVocab = 6;

  static const Tables& get() {
    static const Tables tables;
    return tables;
  }
  Tables() {
    std::mt19937 random(11);
    std::vector<std::vector<double>> rows;
    const ContextTable::MakeRow make_row = [&](int) {
      rows.push_back(random_weights(kVocab, 0.2, random));
      rows.back()[random() % kVocab] += 3;
      return rows.back();
    };
    target = std::make_unique<ContextTable>(kVocab, make_row);
    draft = std::make_unique<ContextTable>(kVocab, [&](int row) {
      std::vector<double> weights = rows[static_cast<std::size_t>(row)];
      for (double& weight : weights) weight += 0.1;
      if (row % 4 == 0) weights[static_cast<std::size_t>(row / 4 % kVocab)] += 5;
      return weights;
    });
  }

  std::unique_ptr<ContextTable> target, draft;
};

// A row [V] with all its weight on one token.
inline TableModel::RowOf always(TokenId token, int vocab_size = Tables::kVocab) {
  auto row = std::make_shared<std::vector<float>>(static_cast<std::size_t>(vocab_size));
  (*row)[static_cast<std::size_t>(token)] = 5;
  return [row](std::span<const TokenId>) { return std::span<const float>(*row); };
}

using MakeCache = std::function<std::unique_ptr<KvCache>(Backend&, const PoolSize&)>;
inline constexpr KvShape kTokenShape = {1, 1, 1};

inline std::unique_ptr<KvCache> make_token_cache(Backend& backend, const PoolSize& size) {
  if (size.page_size == PoolSize::kRegions) {
    return std::make_unique<ContiguousKvCache>(backend, kTokenShape, size.pages,
                                               PoolSize::kRegionLength);
  }
  return std::make_unique<PagedKvCache>(backend, kTokenShape, size.pages, size.page_size);
}

struct BatchSetup {
  PoolSize target = {}, draft = {};
  EngineOptions options = {.max_batch = 4,
                           .spec_length = 4,
                           .token_budget = 40,
                           .prefill_chunk = 8,
                           .prefix_cache = true,
                           .check_invariants = true};
  TableModel::RowOf target_rows = Tables::get().target->row_of();
  TableModel::RowOf draft_rows = Tables::get().draft->row_of();
  int vocab_size = Tables::kVocab;
  int max_seq_len = 60, draft_max_seq_len = 60;
  const Tokenizer* tokenizer = nullptr;
  int token_limit = 0;
  MakeCache make_target_cache = make_token_cache, make_draft_cache = make_token_cache;
  std::function<std::unique_ptr<Drafter>(LanguageModel& model, const BatchSetup& setup)>
      make_drafter = [](LanguageModel& model, const BatchSetup& setup) {
        return std::make_unique<SamplingDrafter>(
            model, setup.max_seq_len + setup.options.spec_length, setup.options.max_batch);
      };
  Judging judging = {};
};

// What a request's callback received.
struct Heard {
  std::vector<TokenId> tokens;
  std::string text, error;
  int deliveries = 0, finals = 0;
  FinishReason finish_reason = FinishReason::kStop;  // of the final one
};

using Results = std::map<RequestId, RequestResult>;

// An engine with its models and caches. Records and checks the deliveries of every request.
class TestBatch {
 public:
  explicit TestBatch(const BatchSetup& setup = {})
      : backend(make_plain_backend()),
        target_cache(setup.make_target_cache(*backend, setup.target)),
        draft_cache(setup.make_draft_cache(*backend, setup.draft)),
        target(*target_cache, setup.vocab_size, setup.target_rows, setup.max_seq_len),
        draft(*draft_cache, setup.vocab_size, setup.draft_rows, setup.draft_max_seq_len),
        drafter(setup.make_drafter(draft, setup)),
        engine_(std::make_unique<BatchEngine>(ServedModels{.target = target,
                                                           .target_cache = *target_cache,
                                                           .drafter = *drafter,
                                                           .draft_cache = draft_cache.get(),
                                                           .tokenizer = setup.tokenizer,
                                                           .token_limit = setup.token_limit,
                                                           .judging = setup.judging},
                                              setup.options)) {}

  BatchEngine& engine() { return *engine_; }
  void destroy_engine() { engine_.reset(); }

  // then: called after a delivery has been recorded.
  RequestId add(const BatchRequest& request, OnDelivery then = {}) {
    return engine_->add_request(request, [this, then = std::move(then)](const Delivery& delivery) {
      listen(delivery);
      if (then) then(delivery);
    });
  }

  // Steps until the engine is idle. Fails after most_steps.
  void run(int most_steps = 2000) {
    while (!engine_->idle()) {
      ASSERT_GT(most_steps--, 0) << "the engine comes to an end";
      engine_->step();
    }
  }
  Results take_results() {
    Results results;
    for (RequestId id = 0; id < 1000; id++) {
      if (engine_->has_result(id)) results.emplace(id, engine_->take_result(id));
    }
    return results;
  }
  Results run_all() {
    run();
    return take_results();
  }

  // Call after every request has ended: only the prefix caches may still use pages.
  void expect_no_leak() {
    engine_->forget_prefixes();
    EXPECT_EQ(engine_->target_pool().n_used(), 0) << "pages of the target";
    EXPECT_EQ(engine_->draft_pool().n_used(), 0) << "pages of the draft";
  }

  std::unique_ptr<Backend> backend;
  std::unique_ptr<KvCache> target_cache, draft_cache;
  PagedTableModel target, draft;
  std::unique_ptr<Drafter> drafter;
  std::map<RequestId, Heard> heard;

 private:
  void listen(const Delivery& delivery) {
    Heard& ear = heard[delivery.id];
    EXPECT_EQ(ear.finals, 0) << "nothing comes after the final delivery";
    EXPECT_TRUE(delivery.finished || !delivery.tokens.empty()) << "a delivery brings something";
    ear.tokens.insert(ear.tokens.end(), delivery.tokens.begin(), delivery.tokens.end());
    ear.text += delivery.text;
    ear.error = delivery.error;
    ear.deliveries++;
    if (!delivery.finished) return;
    ear.finals++;
    ear.finish_reason = delivery.finish_reason;
  }

  std::unique_ptr<BatchEngine> engine_;
};

// ---- requests

// A prompt that depends on `variant`, except for its first six tokens.
inline std::vector<TokenId> some_prompt(int length, int variant = 0, int vocab = Tables::kVocab) {
  std::vector<TokenId> prompt;
  for (int i = 0; i < length; i++)
    prompt.push_back((i * 5 + (i < 6 ? 0 : variant + i / 3)) % vocab);
  return prompt;
}

inline BatchRequest greedy_request(std::vector<TokenId> prompt, int max_new_tokens, int K = 3) {
  BatchRequest request;
  request.generation.prompt = std::move(prompt);
  request.generation.max_new_tokens = max_new_tokens;
  request.spec_length = K;
  return request;
}

inline BatchRequest sampled_request(std::vector<TokenId> prompt, int max_new_tokens, int K = 3,
                                    std::uint64_t seed = 1) {
  BatchRequest request = greedy_request(std::move(prompt), max_new_tokens, K);
  request.speculation.sampling.temperature = 1;
  request.speculation.draft_temperature = 1;
  request.seed = seed;
  return request;
}

// Six requests of different kinds whose prompts begin alike.
inline std::vector<BatchRequest> mixed_requests() {
  std::vector<BatchRequest> requests = {
      sampled_request(some_prompt(13, 0), 12, 4, 1), greedy_request(some_prompt(7, 1), 9, 2),
      sampled_request(some_prompt(20, 2), 15, 3, 2), sampled_request(some_prompt(4), 10, 0, 3),
      sampled_request(some_prompt(1), 14, 4, 4),     greedy_request(some_prompt(13, 3), 8, 1)};
  requests[2].generation.eos_ids = {5};
  return requests;
}

// ---- what must come out

inline void expect_same_output(const RequestResult& got, const RequestResult& want) {
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_EQ(got.text, want.text);
  EXPECT_EQ(finish_reason_name(got.finish_reason), finish_reason_name(want.finish_reason));
  EXPECT_EQ(got.error, want.error);
}

// The results if nothing disturbs the engine and there is room for all requests.
inline Results undisturbed(const std::vector<BatchRequest>& requests, BatchSetup setup = {}) {
  setup.target = setup.draft = {300, 3};
  setup.make_target_cache = setup.make_draft_cache = make_token_cache;
  setup.options.clock = {};
  TestBatch batch(setup);
  for (const BatchRequest& request : requests) batch.add(request);
  return batch.run_all();
}

// Expects the same results for all requests, except those in `except`.
inline void expect_same_outputs(const Results& got, const Results& want,
                                const std::vector<RequestId>& except = {}) {
  for (const auto& [id, result] : want) {
    if (std::ranges::find(except, id) != except.end()) continue;
    SCOPED_TRACE(fmt::format("request {}", id));
    ASSERT_TRUE(got.contains(id));
    expect_same_output(got.at(id), result);
  }
}

}  // namespace specdec
