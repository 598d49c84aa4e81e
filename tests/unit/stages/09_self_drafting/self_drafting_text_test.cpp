// Heads change no text: greedily it is plain decoding's, and a batch gives each request what it has
// alone, chains and trees, whatever pages and preemptions do.
#include "stages/09_self_drafting/heads_model.h"
#include "tests/embedded_batch.h"
#include "tests/unit/stages/08_token_trees/tree_batch.h"

namespace specdec::batch {
namespace {

constexpr int kHeads = 4;

const LlamaModel& target_model() { return embedded().draft.model; }  // the smaller one

// Small random blocks: each head says about what the target says next, so that where a text repeats
// itself, some drafts are right.
std::unique_ptr<Heads> random_heads(int max_rows) {
  const int E = target_model().config().d_model;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> weights(std::size_t(kHeads * E * E)), bias(std::size_t(kHeads * E));
  for (auto* list : {&weights, &bias}) {
    for (float& value : *list) value = normal(random);
  }
  const HostMatrix matrix{WeightType::kF32, std::as_bytes(std::span(weights)), kHeads * E, E};
  Backend& backend = target_model().backend();
  return std::make_unique<MedusaHeads>(backend, backend.load_matrix(std::span(&matrix, 1)), bias,
                                       max_rows);
}

TreeKind kind_of(std::string_view name) {
  using Widths = std::vector<int>;
  const auto rule = [](std::string_view of) { return &find_sibling_rule(of); };
  if (name == "chain") return {shape<Chains>(1, kHeads), rule("rejection")};
  if (name == "chains") return {shape<Chains>(3, kHeads), rule("at-least")};
  return {shape<Likeliest>(plan_of_widths(Widths{3, 2, 1})), rule("rejection")};
}

// A target that drafts for itself.
struct SelfDrafting {
  SelfDrafting(const TreeKind& kind, int max_requests, int page_size, int pages)
      : llama(make_llama(target_model(), page_size, pages, max_requests,
                         kPositions + kind.room().verified)),
        rows(llama->llama, {Outputs::kAfterNorm}, max_requests, kind.room().rows()),
        model(target_model(), random_heads(max_requests), embedded().tokenizer.vocab_size(),
              max_requests),
        drafter(model, kind.drafter(model, kPositions + kind.room().levels,
                                    target_model().config().vocab_size, max_requests)) {
    model.read(rows);
  }

  std::unique_ptr<CachedLlama> llama;
  TargetRows rows;
  HeadsModel model;
  SelfDrafter drafter;
};

class SelfDraftingText : public ::testing::TestWithParam<const char*> {
 protected:
  const TreeKind kind_ = kind_of(GetParam());
  std::mt19937 random_{8};

  BatchRequest request(const std::vector<TokenId>& beginning) {
    BatchRequest request = random_request(random_, beginning, kind_.room().levels);
    request.speculation.lenience = 1;
    return request;
  }
  Outcome alone(const BatchRequest& request) const {
    SelfDrafting self(kind_, 1, 16, 0);
    return run_tree_alone(self.rows, self.drafter, *kind_.rule, request);
  }
};

TEST_P(SelfDraftingText, GreedilyItIsPlainDecodings) {
  std::int64_t accepted = 0;
  for (int trial = 0; trial < 6; trial++) {
    BatchRequest r = request(excerpt(random_, 18));
    r.speculation.sampling = {};
    r.speculation.draft_temperature = 0;
    r.spec_length = 1 + trial % kind_.room().levels;
    const Outcome got = alone(r);
    r.spec_length = 0;
    CachedLlama plain(target_model(), 16, kPositions);
    NoDrafter nothing;
    expect_same_tokens(got, run_alone(plain.llama, nothing, r));
    accepted += got.stats.accepted;
  }
  EXPECT_GT(accepted, 0);
}

TEST_P(SelfDraftingText, ABatchGivesWhatEachRequestHasAlone) {
  bool preempted = false, shared = false;
  for (int trial = 0; trial < 8 && !(preempted && shared); trial++) {
    const auto beginning = excerpt(random_, 18);
    std::vector<Arrival> arrivals;
    std::vector<Outcome> want;
    std::int64_t most = 1;
    for (int i = 0; i < 7; i++) {
      arrivals.push_back({.request = request(beginning)});
      want.push_back(alone(arrivals.back().request));
      most = std::max(
          most, most_cached(arrivals.back().request, kind_.capacities(), kPositions).by_target);
    }
    random_times(random_, arrivals);
    const int page_size = trial % 2 == 0 ? 3 : 16;
    SelfDrafting self(kind_, 4, page_size, pages_for(int(most), page_size) * 5 / 4);
    BatchEngine engine({.target = self.rows,
                        .target_cache = *self.llama->cache,
                        .drafter = self.drafter,
                        .token_limit = embedded().tokenizer.vocab_size(),
                        .judging = judging_of_trees(*kind_.rule)},
                       {.max_batch = 4,
                        .spec_length = kind_.room().levels,
                        .token_budget = 4 * kind_.room().rows() + 7,
                        .prefill_chunk = 5,
                        .check_invariants = true});
    TreeBatchRun run(engine, arrivals, true);
    run.run();
    if (HasFatalFailure()) return;
    for (std::size_t i = 0; i < arrivals.size(); i++) expect_as_alone(run.served()[i], want[i]);
    preempted |= run.preempted();
    shared |= run.shared_a_prefix();
  }
  EXPECT_TRUE(preempted && shared) << "the workloads are worth their time";
}

INSTANTIATE_TEST_SUITE_P(Kinds, SelfDraftingText, ::testing::Values("chain", "chains", "top"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace specdec::batch
