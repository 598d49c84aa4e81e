// Trees in the engine of stage 6, on small pools: whatever is cancelled, preempted, full or broken,
// no page leaks, and who goes on gets the same tokens.
#include "stages/08_token_trees/tree_drafter.h"
#include "stages/08_token_trees/tree_round.h"
#include "tests/unit/stages/06_batched_verification/batch_traffic.h"
#include "tests/unit/stages/06_batched_verification/faulty_cache.h"

namespace specdec {
namespace {

struct Kind {
  std::string_view name, rule;
  MakeTreeShape shape;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kinds = {
      {"chains", "rejection", [] { return std::make_unique<Chains>(3, 3); }},
      {"distinct", "rejection",
       [] {
         return std::make_unique<DistinctDrafts>(std::vector<int>{2, 2, 1});
       }},
      {"likeliest", "coupled",
       [] {
         return std::make_unique<Likeliest>(plan_of_widths(std::vector<int>{3, 1, 1}));
       }},
      {"grown", "sample-and-match", [] { return std::make_unique<GrownTree>(8, 3, 4); }}};
  return kinds;
}

// An engine of trees, with all that belongs to it.
struct TreeBatch {
  TreeBatch(const Kind& kind, const BatchSetup& setup)
      : backend(make_plain_backend()),
        target_cache(setup.make_target_cache(*backend, setup.target)),
        draft_cache(setup.make_draft_cache(*backend, setup.draft)),
        target(*target_cache, setup.vocab_size, setup.target_rows, setup.max_seq_len),
        draft(*draft_cache, setup.vocab_size, setup.draft_rows, setup.draft_max_seq_len),
        drafter(draft, kind.shape, setup.max_seq_len + 8, setup.vocab_size,
                setup.options.max_batch),
        engine({.target = target,
                .target_cache = *target_cache,
                .drafter = drafter,
                .draft_cache = draft_cache.get(),
                .judging = judging_of_trees(find_sibling_rule(kind.rule))},
               setup.options) {}

  int pages() const { return engine.target_pool().n_used() + engine.draft_pool().n_used(); }
  Results run(const std::vector<BatchRequest>& requests) {
    Results results;
    for (const BatchRequest& request : requests) engine.add_request(request);
    for (int step = 0; !engine.idle(); step++) {
      if (step == 2000) ADD_FAILURE() << "the engine comes to an end";
      if (step == 2000) break;
      for (const RequestId id : engine.step().finished) results[id] = engine.take_result(id);
    }
    engine.forget_prefixes();
    EXPECT_EQ(pages(), 0);
    return results;
  }

  std::unique_ptr<Backend> backend;
  std::unique_ptr<KvCache> target_cache, draft_cache;
  PagedTableModel target, draft;
  ModelTreeDrafter drafter;
  BatchEngine engine;
};

BatchSetup small_setup(PoolSize target, PoolSize draft) {
  BatchSetup setup{.target = target, .draft = draft};
  setup.options.max_batch = 8;
  setup.options.token_budget = 120;
  return setup;
}

TEST(BatchedTreesPagesTest, AHundredThousandRoundsLeaveNothingBehind) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    BatchSetup setup = small_setup({34, 3}, {11, 8});
    setup.options.check_invariants = false;
    TreeBatch batch(kind, setup);
    BatchEngine& engine = batch.engine;
    Traffic traffic(engine, some_request);
    std::size_t at_half = 0;
    for (const int rounds : {12'500, 25'000}) {  // of each of the four kinds
      while (engine.stats().rounds < rounds) {
        traffic.step();
        if (engine.stats().steps % 100 == 0) engine.check_invariants();
      }
      traffic.drain();
      EXPECT_EQ(batch.pages(), 0) << "pages";
      if (at_half == 0) at_half = live_bytes();
    }
    EXPECT_LE(live_bytes(), at_half + 4096) << "memory grows";
    EXPECT_GT(engine.stats().preemptions, 250);
    EXPECT_GT(engine.stats().admissions_with_prefix, 250);
    EXPECT_GT(engine.target_pool().prefixes()->stats().pages_evicted, 250);
    EXPECT_EQ(engine.stats().steps_given_up, 0);
    EXPECT_GT(engine.stats().emitted, engine.stats().rounds * 5 / 4) << "something is accepted";
  }
}

// A cache that is full against all plans, at any call: the step is taken back, and tried again.
TEST(BatchedTreesPagesTest, ACacheThatIsFullAgainstThePlanChangesNoText) {
  for (const Kind& kind : kinds()) {
    const Results want = TreeBatch(kind, small_setup({300, 3}, {300, 3})).run(mixed_requests());
    ASSERT_EQ(want.size(), mixed_requests().size());
    for (const bool in_draft : {false, true}) {
      int given_up = 0;
      for (int first = 0; first < 60; first++) {
        SCOPED_TRACE(
            fmt::format("{}, {} call {}", kind.name, in_draft ? "draft" : "target", first));
        Faults faults{.first = first, .count = 1};
        BatchSetup setup = small_setup({40, 3}, {40, 3});
        (in_draft ? setup.make_draft_cache : setup.make_target_cache) = make_faulty_cache(faults);
        TreeBatch batch(kind, setup);
        expect_same_outputs(batch.run(mixed_requests()), want);
        given_up += static_cast<int>(batch.engine.stats().steps_given_up);
      }
      EXPECT_GT(given_up, 10);
    }
  }
}

// Logits that are no numbers end the request that has them, and no other.
TEST(BatchedTreesPagesTest, ARequestWhoseLogitsAreBrokenFailsAlone) {
  constexpr TokenId kBroken = 5;
  static const std::vector<float> nan(Tables::kVocab, std::numeric_limits<float>::quiet_NaN());
  const auto broken = [](const TableModel::RowOf& row_of) -> TableModel::RowOf {
    return [=](std::span<const TokenId> prefix) {
      return prefix[0] == kBroken ? std::span<const float>(nan) : row_of(prefix);
    };
  };
  std::vector<BatchRequest> requests = mixed_requests();
  requests[2].generation.prompt[0] = kBroken;
  for (const Kind& kind : kinds()) {
    const Results want = TreeBatch(kind, small_setup({300, 3}, {300, 3})).run(requests);
    for (const bool in_draft : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, {}", kind.name, in_draft ? "draft" : "target"));
      BatchSetup setup = small_setup({300, 3}, {300, 3});
      auto& rows = in_draft ? setup.draft_rows : setup.target_rows;
      rows = broken(rows);
      TreeBatch batch(kind, setup);
      const Results got = batch.run(requests);
      expect_same_outputs(got, want, {2});
      EXPECT_EQ(got.at(2).finish_reason, FinishReason::kError);
      EXPECT_TRUE(got.at(2).tokens.empty());
      const std::int64_t in_rounds = got.at(2).stats.run.target_rows - 19;  // but for its prompt
      EXPECT_EQ(in_rounds == 0, in_draft) << in_rounds;
      EXPECT_EQ(batch.engine.stats().round_rows, batch.target.rows());
      EXPECT_EQ(batch.engine.stats().target_forwards, batch.target.forwards());
    }
  }
}

}  // namespace
}  // namespace specdec
