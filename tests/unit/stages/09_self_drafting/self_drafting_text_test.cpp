// A target that drafts for itself changes no text: greedily it is plain decoding's, and a batch
// gives each request what it has alone, chains and trees, whatever pages and preemptions do.
#include "tests/unit/stages/09_self_drafting/self_drafting.h"

namespace specdec::batch {
namespace {

class SelfDraftingText
    : public ::testing::TestWithParam<std::tuple<std::string_view, std::string_view>> {
 protected:
  const TreeKind kind_ = kind_of(std::get<1>(GetParam()));
  std::unique_ptr<SelfDrafting> make(int max_requests, int page_size, int pages) const {
    return std::make_unique<SelfDrafting>(std::get<0>(GetParam()), kind_, max_requests, page_size,
                                          pages);
  }
  auto way() const {
    return self_way(kind_, [this](auto... sizes) { return make(sizes...); });
  }
};

TEST_P(SelfDraftingText, GreedilyItIsPlainDecodings) { EXPECT_GT(expect_plain_texts(way()), 0); }

// Drafting needs no room in a cache that its round does not need anyway.
TEST_P(SelfDraftingText, FillsTheContextWithNoRoomToSpare) {
  std::mt19937 random(8);
  BatchRequest r = greedy_request(random, kind_.room().levels);
  r.context_limit = static_cast<int>(r.generation.prompt.size()) + r.generation.max_new_tokens;
  const auto self = make(1, 1, r.context_limit + kind_.room().branches());
  const Outcome got =
      run_tree_alone(self->target(), self->drafter(), *kind_.rule, r, &embedded().tokenizer);
  expect_same_tokens(got, plain_decoding(r));
  EXPECT_EQ(std::ssize(got.tokens), r.generation.max_new_tokens);
}

TEST_P(SelfDraftingText, ABatchGivesWhatEachRequestHasAlone) { check_workloads(way(), 1); }

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
