#pragma once
#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "tests/embedded_workload.h"
#include "tests/unit/stages/08_token_trees/tree_batch.h"

// Targets that draft for themselves, alone and in batches.
namespace specdec::batch {

constexpr int kLevels = 4;  // the most drafts in a row

// The smaller embedded model is the target.
inline const LlamaModel& self_target() { return embedded().draft.model; }

inline TreeKind kind_of(std::string_view name) {
  using Widths = std::vector<int>;
  const auto rule = [](std::string_view of) { return &find_sibling_rule(of); };
  if (name == "chain") return {shape<Chains>(1, kLevels), rule("rejection")};
  if (name == "chains") return {shape<Chains>(3, kLevels), rule("at-least")};
  return {shape<Likeliest>(plan_of_widths(Widths{3, 2, 1})), rule("rejection")};
}

inline Outcome plain_decoding(BatchRequest request) {
  request.spec_length = 0;
  CachedLlama plain(self_target(), 16, kPositions);
  NoDrafter nothing;
  return run_alone(plain.llama, nothing, request, &embedded().tokenizer);
}

// A way to draft, as embedded_workload.h has them. make(max_requests, page_size, pages) returns a
// pointer to what has target(), target_cache(), drafter() and draft_cache(), which may be null.
template <typename Make>
struct SelfWay {
  TreeKind kind;
  Make make;
  RoundCapacity capacity = kind.capacities();

  int levels(std::mt19937& /*random*/) const { return kind.room().levels; }
  void adjust(BatchRequest& request) const { request.speculation.lenience = 1; }
  Outcome alone(const BatchRequest& request, int page_size = 16) const {
    const auto self = make(1, page_size, 0);
    return run_tree_alone(self->target(), self->drafter(), *kind.rule, request,
                          &embedded().tokenizer);
  }
  bool serve(const Sizes& sizes, const std::vector<Arrival>& arrivals,
             const std::vector<Outcome>& want) const {
    const int of_draft = sizes.draft_pages * sizes.draft_page_size;
    const int pages = std::max(sizes.pages, (of_draft + sizes.page_size - 1) / sizes.page_size);
    const auto self = make(sizes.options.max_batch, sizes.page_size, pages);
    BatchEngine engine({.target = self->target(),
                        .target_cache = self->target_cache(),
                        .drafter = self->drafter(),
                        .draft_cache = self->draft_cache(),
                        .tokenizer = &embedded().tokenizer,
                        .token_limit = embedded().tokenizer.vocab_size(),
                        .judging = judging_of_trees(*kind.rule)},
                       sizes.options);
    TreeBatchRun run(engine, arrivals, true);
    run.run();
    if (::testing::Test::HasFatalFailure()) return false;
    for (std::size_t i = 0; i < arrivals.size(); i++) expect_as_alone(run.served()[i], want[i]);
    EXPECT_EQ(engine.stats().steps_given_up, 0) << "room that the plan has not secured";
    return run.preempted() && run.was_ragged() && run.shared_a_prefix();
  }
};

template <typename Make>
SelfWay<Make> self_way(const TreeKind& kind, Make make) {
  return {kind, std::move(make)};
}

// Greedy texts of any K and both caches are plain decoding's. Returns how many drafts were
// accepted.
template <typename Way>
std::int64_t expect_plain_texts(const Way& way) {
  std::mt19937 random(8);
  std::int64_t accepted = 0;
  for (int trial = 0; trial < 6; trial++) {
    BatchRequest request = greedy_request(random, 1 + trial % way.kind.room().levels);
    const Outcome got = way.alone(request, trial % 2 == 0 ? 3 : kNoPages);
    expect_same_tokens(got, plain_decoding(request));
    accepted += got.stats.accepted;
  }
  return accepted;
}

}  // namespace specdec::batch
