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

BatchSetup tree_setup(const Kind& kind, PoolSize target, PoolSize draft) {
  BatchSetup setup{.target = target, .draft = draft};
  setup.options.max_batch = 8;
  setup.options.token_budget = 120;
  setup.make_drafter = [&kind](LanguageModel& model, const BatchSetup& of) {
    return std::make_unique<ModelTreeDrafter>(model, kind.shape, of.max_seq_len + 8, of.vocab_size,
                                              of.options.max_batch);
  };
  setup.judging = judging_of_trees(find_sibling_rule(kind.rule));
  return setup;
}

Results run(TestBatch& batch, const std::vector<BatchRequest>& requests) {
  for (const BatchRequest& request : requests) batch.add(request);
  Results results = batch.run_all();
  batch.expect_no_leak();
  return results;
}

Results undisturbed(const Kind& kind, const std::vector<BatchRequest>& requests) {
  TestBatch batch(tree_setup(kind, {300, 3}, {300, 3}));
  return run(batch, requests);
}

TEST(BatchedTreesPagesTest, AHundredThousandRoundsLeaveNothingBehind) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    BatchSetup setup = tree_setup(kind, {34, 3}, {11, 8});
    setup.options.check_invariants = false;
    TestBatch batch(setup);
    BatchEngine& engine = batch.engine();
    Traffic traffic(engine, some_request);
    std::size_t at_half = 0;
    for (const int rounds : {12'500, 25'000}) {  // of each of the four kinds
      while (engine.stats().rounds < rounds) {
        traffic.step();
        if (engine.stats().steps % 100 == 0) engine.check_invariants();
      }
      traffic.drain();
      batch.expect_no_leak();
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
    const Results want = undisturbed(kind, mixed_requests());
    ASSERT_EQ(want.size(), mixed_requests().size());
    for (const bool in_draft : {false, true}) {
      int given_up = 0;
      for (int first = 0; first < 60; first++) {
        SCOPED_TRACE(
            fmt::format("{}, {} call {}", kind.name, in_draft ? "draft" : "target", first));
        Faults faults{.first = first, .count = 1};
        BatchSetup setup = tree_setup(kind, {40, 3}, {40, 3});
        (in_draft ? setup.make_draft_cache : setup.make_target_cache) = make_faulty_cache(faults);
        TestBatch batch(setup);
        expect_same_outputs(run(batch, mixed_requests()), want);
        given_up += static_cast<int>(batch.engine().stats().steps_given_up);
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
    const Results want = undisturbed(kind, requests);
    for (const bool in_draft : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, {}", kind.name, in_draft ? "draft" : "target"));
      BatchSetup setup = tree_setup(kind, {300, 3}, {300, 3});
      auto& rows = in_draft ? setup.draft_rows : setup.target_rows;
      rows = broken(rows);
      TestBatch batch(setup);
      const Results got = run(batch, requests);
      expect_same_outputs(got, want, {2});
      EXPECT_EQ(got.at(2).finish_reason, FinishReason::kError);
      EXPECT_TRUE(got.at(2).tokens.empty());
      const std::int64_t in_rounds = got.at(2).stats.run.target_rows - 19;  // but for its prompt
      EXPECT_EQ(in_rounds == 0, in_draft) << in_rounds;
      EXPECT_EQ(batch.engine().stats().round_rows, batch.target.rows());
      EXPECT_EQ(batch.engine().stats().target_forwards, batch.target.forwards());
    }
  }
}

}  // namespace
}  // namespace specdec
