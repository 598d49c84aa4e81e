// A target that drafts for itself changes no text: greedily it is plain decoding's, and a batch
// gives each request what it has alone, chains and trees, whatever pages and preemptions do.
#include "tests/unit/stages/09_self_drafting/self_drafting.h"

namespace specdec::batch {
namespace {

class SelfDraftingText
    : public ::testing::TestWithParam<std::tuple<std::string_view, std::string_view>> {
 protected:
  const std::string_view drafter_ = std::get<0>(GetParam());
  const TreeKind kind_ = kind_of(std::get<1>(GetParam()));
  std::mt19937 random_{8};

  BatchRequest request(const std::vector<TokenId>& beginning) {
    BatchRequest request = random_request(random_, beginning, kind_.room().levels);
    request.speculation.lenience = 1;
    return request;
  }
  Outcome alone(const BatchRequest& request, int page_size = 16) const {
    SelfDrafting self(drafter_, kind_, 1, page_size, 0);
    return run_tree_alone(self.target(), *self.drafter, *kind_.rule, request);
  }
};

TEST_P(SelfDraftingText, GreedilyItIsPlainDecodings) {
  std::int64_t accepted = 0;
  for (int trial = 0; trial < 6; trial++) {
    BatchRequest r = request(excerpt(random_, 18));
    r.speculation.sampling = {};
    r.speculation.draft_temperature = 0;
    r.spec_length = 1 + trial % kind_.room().levels;
    const Outcome got = alone(r, trial % 2 == 0 ? 3 : kContiguous);
    r.spec_length = 0;
    CachedLlama plain(self_target(), 16, kPositions);
    NoDrafter nothing;
    expect_same_tokens(got, run_alone(plain.llama, nothing, r));
    accepted += got.stats.accepted;
  }
  EXPECT_GT(accepted, 0);
}

// Drafting needs no room in a cache that its round does not need anyway.
TEST_P(SelfDraftingText, FillsTheContextWithNoRoomToSpare) {
  BatchRequest r = greedy_request(random_, kind_.room().levels);
  r.context_limit = static_cast<int>(r.generation.prompt.size()) + r.generation.max_new_tokens;
  SelfDrafting self(drafter_, kind_, 1, 1, r.context_limit + kind_.room().branches());
  const Outcome got = run_tree_alone(self.target(), *self.drafter, *kind_.rule, r);
  r.spec_length = 0;
  CachedLlama plain(self_target(), 16, kPositions);
  NoDrafter nothing;
  expect_same_tokens(got, run_alone(plain.llama, nothing, r));
  EXPECT_EQ(std::ssize(got.tokens), r.generation.max_new_tokens);
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
      const MostCached of_request =
          most_cached(arrivals.back().request, kind_.capacities(), kPositions);
      most = std::max({most, of_request.by_target, of_request.by_draft});
    }
    random_times(random_, arrivals);
    const int page_size = trial % 2 == 0 ? 3 : 16;
    SelfDrafting self(drafter_, kind_, 4, page_size, pages_for(int(most), page_size) * 5 / 4);
    BatchEngine engine({.target = self.target(),
                        .target_cache = *self.llama->cache,
                        .drafter = *self.drafter,
                        .draft_cache = self.draft_cache(),
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
    EXPECT_EQ(engine.stats().steps_given_up, 0) << "room that the plan has not secured";
    preempted |= run.preempted();
    shared |= run.shared_a_prefix();
  }
  EXPECT_TRUE(preempted && shared) << "the workloads are worth their time";
}

INSTANTIATE_TEST_SUITE_P(Kinds, SelfDraftingText,
                         ::testing::Combine(::testing::Values("medusa", "lookahead", "parallel",
                                                              "markov"),
                                            ::testing::Values("chain", "chains", "top")),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) + "_" +
                                  std::string(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace specdec::batch
