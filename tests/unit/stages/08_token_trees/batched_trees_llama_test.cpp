// Trees in the engine of stage 6 on the embedded pair: real logits, real texts, every kind of tree,
// and stop texts that span tokens and rounds. A request gets what its trees give it alone.
#include "tests/embedded_workload.h"
#include "tests/unit/stages/08_token_trees/tree_batch.h"

namespace specdec::batch {
namespace {

// A way to draft and to judge, by its name.
TreeKind kind_of(std::string_view name) {
  using Widths = std::vector<int>;
  const auto rule = [](std::string_view of) { return &find_sibling_rule(of); };
  if (name == "chains") return {shape<Chains>(3, 4), rule("rejection")};
  if (name == "distinct") return {shape<DistinctDrafts>(Widths{2, 2, 1}), rule("at-least")};
  if (name == "top") return {shape<Likeliest>(plan_of_widths(Widths{3, 2, 1})), rule("rejection")};
  if (name == "grown") return {shape<GrownTree>(8, 3, 4), rule("sample-and-match"), true};
  if (name == "block") return {shape<Chains>(1, 4), rule("block")};
  return {{}, rule("coupled")};  // lookup
}
constexpr const char* kKinds[] = {"chains", "distinct", "top", "grown", "block", "lookup"};

int vocab_size() { return embedded().target.model.config().vocab_size; }

// Both models with room for so many requests and their trees. pages: 0: enough for all of them.
struct Models {
  Models(const TreeKind& kind, int max_requests, int page_size, int pages, int draft_page_size,
         int draft_pages)
      : target(make_llama(embedded().target.model, page_size, pages, max_requests,
                          kPositions + kind.room().verified)),
        draft(make_llama(embedded().draft.model, draft_page_size, draft_pages, max_requests,
                         kPositions + kind.room().nodes)),
        drafter(kind.drafter(draft->llama, kPositions + kind.room().levels, vocab_size(),
                             max_requests)) {}

  std::unique_ptr<CachedLlama> target, draft;
  std::unique_ptr<Drafter> drafter;
};

// Trees of a kind.
struct TreeWay {
  TreeKind kind;
  RoundCapacity capacity = kind.capacities();

  int levels(std::mt19937& /*random*/) const { return kind.room().levels; }
  void adjust(BatchRequest& request) const { request.speculation.lenience = 1; }
  Outcome alone(const BatchRequest& request) const {
    const Models models(kind, 1, 16, 0, 16, 0);
    return run_tree_alone(models.target->llama, *models.drafter, *kind.rule, request,
                          &embedded().tokenizer);
  }
  // Stage 5 without drafts, where a tree gives the same text: at temperature 0, and where the
  // target's token is drawn first.
  std::optional<Outcome> plain(BatchRequest request) const {
    const bool draws_first = kind.rule->name == "coupled" || kind.rule->name == "sample-and-match";
    if (request.speculation.sampling.temperature > 0 && !draws_first) return std::nullopt;
    request.spec_length = 0;
    request.speculation.rule =
        &find_acceptance_rule(draws_first ? kind.rule->name : std::string_view("rejection"));
    CachedLlama target(embedded().target.model, 16, kPositions);
    NoDrafter nothing;
    return run_alone(target.llama, nothing, request, &embedded().tokenizer);
  }
  bool serve(const Sizes& sizes, const std::vector<Arrival>& arrivals,
             const std::vector<Outcome>& want) const {
    const Models models(kind, sizes.options.max_batch, sizes.page_size, sizes.pages,
                        sizes.draft_page_size, sizes.draft_pages);
    BatchEngine engine({.target = models.target->llama,
                        .target_cache = *models.target->cache,
                        .drafter = *models.drafter,
                        .draft_cache = kind.shape ? models.draft->cache.get() : nullptr,
                        .tokenizer = &embedded().tokenizer,
                        .token_limit = embedded().tokenizer.vocab_size(),
                        .judging = judging_of_trees(*kind.rule)},
                       sizes.options);
    TreeBatchRun run(engine, arrivals, kind.grown);
    run.run();
    if (::testing::Test::HasFatalFailure()) return false;
    for (std::size_t i = 0; i < arrivals.size(); i++) {
      SCOPED_TRACE(::testing::Message() << "arrival " << i);
      expect_as_alone(run.served()[i], want[i]);
      if (const auto plainly = plain(arrivals[i].request)) {
        SCOPED_TRACE("plain decoding");
        expect_same_tokens(*plainly, want[i]);
      }
    }
    return run.preempted() && run.was_ragged() && run.shared_a_prefix();
  }
};

class BatchedTreesLlama : public ::testing::TestWithParam<const char*> {};

TEST_P(BatchedTreesLlama, EveryRequestGetsWhatItGetsAlone) {
  check_workloads(TreeWay{kind_of(GetParam())}, full() ? 20 : 2);
}

TEST_P(BatchedTreesLlama, StopTextsAreFoundAcrossTokensAndRounds) {
  const TreeWay way{kind_of(GetParam())};
  for (const double temperature : {0., 0.8}) {
    SCOPED_TRACE(::testing::Message() << "temperature " << temperature);
    check_stops_across_rounds(way, way.kind.room().levels, temperature);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, BatchedTreesLlama, ::testing::ValuesIn(kKinds),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace specdec::batch
