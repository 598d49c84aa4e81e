// Trees in the engine of stage 6 on the embedded pair: real logits, real texts, every kind of tree,
// and stop texts that span tokens and rounds. A request gets what its trees give it alone.
#include "tests/embedded_batch.h"
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

Outcome alone(const BatchRequest& request, const TreeKind& kind) {
  const Models models(kind, 1, 16, 0, 16, 0);
  return run_tree_alone(models.target->llama, *models.drafter, *kind.rule, request,
                        &embedded().tokenizer);
}

// Stage 5 without drafts, where a tree gives the same text: at temperature 0, and where the
// target's token is drawn first.
std::optional<Outcome> plain(BatchRequest request, const TreeKind& kind) {
  const bool draws_first = kind.rule->name == "coupled" || kind.rule->name == "sample-and-match";
  if (request.speculation.sampling.temperature > 0 && !draws_first) return std::nullopt;
  request.spec_length = 0;
  request.speculation.rule =
      &find_acceptance_rule(draws_first ? kind.rule->name : std::string_view("rejection"));
  CachedLlama target(embedded().target.model, 16, kPositions);
  NoDrafter nothing;
  return run_alone(target.llama, nothing, request, &embedded().tokenizer);
}

// Serves the arrivals, and expects each request to get what it gets alone. Whether it preempted,
// shared a prefix and was ragged.
bool serve(const TreeKind& kind, const Models& models, const EngineOptions& options,
           const std::vector<Arrival>& arrivals, const std::vector<Outcome>& want) {
  BatchEngine engine({.target = models.target->llama,
                      .target_cache = *models.target->cache,
                      .drafter = *models.drafter,
                      .draft_cache = kind.shape ? models.draft->cache.get() : nullptr,
                      .tokenizer = &embedded().tokenizer,
                      .token_limit = embedded().tokenizer.vocab_size(),
                      .judging = judging_of_trees(*kind.rule)},
                     options);
  TreeBatchRun run(engine, arrivals, kind.grown);
  run.run();
  if (::testing::Test::HasFatalFailure()) return false;
  for (std::size_t i = 0; i < arrivals.size(); i++) {
    SCOPED_TRACE(::testing::Message() << "arrival " << i);
    expect_as_alone(run.served()[i], want[i]);
    const auto plainly = plain(arrivals[i].request, kind);
    if (plainly) {
      SCOPED_TRACE("plain decoding");
      expect_same_tokens(*plainly, want[i]);
    }
  }
  return run.preempted() && run.was_ragged() && run.shared_a_prefix();
}

EngineOptions options_for(const TreeKind& kind, int max_batch) {
  return {.max_batch = max_batch,
          .spec_length = kind.room().levels,
          .token_budget = max_batch * (kind.room().verified + 1),
          .check_invariants = true};
}

// ---- random workloads

// What came up in them.
struct Seen {
  int greedy = 0, sampled = 0, stopped = 0;
};

bool check_workload(std::mt19937& random, const TreeKind& kind, Seen& seen) {
  const Capacity room = kind.room();
  const std::vector<TokenId> beginning = excerpt(random, 18);
  std::vector<Arrival> arrivals;
  std::vector<Outcome> want;
  std::int64_t most = 1, most_drafted = 1;
  for (int i = between(random, 6, full() ? 16 : 8); i > 0; i--) {
    BatchRequest request = random_request(random, beginning, room.levels);
    request.speculation.lenience = 1;
    want.push_back(alone(request, kind));
    if (add_stop(random, request, want.back().text)) want.back() = alone(request, kind);
    const bool is_greedy = request.speculation.sampling.temperature == 0;
    (is_greedy ? seen.greedy : seen.sampled)++;
    seen.stopped += request.generation.stop.empty() ? 0 : 1;
    const MostCached cached = most_cached(request, kind.capacities(), kPositions);
    most = std::max(most, cached.by_target);
    most_drafted = std::max(most_drafted, cached.by_draft);
    arrivals.push_back({.request = request});
  }
  random_times(random, arrivals);
  const int page_sizes[] = {1, 3, 16};
  const auto pages = [&](std::int64_t tokens, int page_size) {
    return pages_for(static_cast<int>(tokens), page_size) * between(random, 5, 7) / 4;
  };
  const int page_size = one_of(random, page_sizes), draft_page_size = one_of(random, page_sizes);
  const int B = between(random, 3, 6);
  const Models models(kind, B, page_size, pages(most, page_size), draft_page_size,
                      pages(most_drafted, draft_page_size));
  EngineOptions options = options_for(kind, B);
  options.token_budget += between(random, 0, 30);
  options.prefill_chunk = between(random, 3, 30);
  return serve(kind, models, options, arrivals, want);
}

class BatchedTreesLlama : public ::testing::TestWithParam<const char*> {};

TEST_P(BatchedTreesLlama, EveryRequestGetsWhatItGetsAlone) {
  const TreeKind kind = kind_of(GetParam());
  const int wanted = full() ? 20 : 2;  // that preempt, share a prefix and are ragged
  Seen seen;
  int counted = 0;
  for (unsigned i = 0; counted < wanted && i < unsigned(6 * wanted) + 4 && !HasFailure(); i++) {
    SCOPED_TRACE(::testing::Message() << "workload " << i);
    std::mt19937 random(i);
    counted += check_workload(random, kind, seen) ? 1 : 0;
  }
  EXPECT_EQ(counted, wanted) << "that preempted, shared a prefix and were ragged";
  EXPECT_GT(seen.greedy, 0);
  EXPECT_GT(seen.sampled, 0);
  EXPECT_GT(seen.stopped, 0);
}

// ---- stop texts

// Each request gets a stop text that begins before its last round and ends in it.
void check_stops_across_rounds(const TreeKind& kind, double temperature) {
  std::mt19937 random(4);
  std::vector<Arrival> arrivals;
  std::vector<Outcome> want;
  int spanning = 0;
  for (int i = 0; i < 6; i++) {
    BatchRequest request = greedy_request(random, kind.room().levels);
    request.seed = static_cast<std::uint64_t>(i);
    request.speculation.sampling.temperature = temperature;
    request.speculation.draft_temperature = temperature;
    const std::string stop = text_across_rounds(alone(request, kind));
    if (stop.empty()) continue;
    request.generation.stop = {stop};
    arrivals.push_back({.request = request});
    want.push_back(alone(request, kind));
    EXPECT_EQ(want.back().finish_reason, FinishReason::kStop);
    EXPECT_EQ(want.back().text.find(stop), std::string::npos) << "nothing of it is delivered";
    spanning += ends_before_its_last_round(want.back()) ? 1 : 0;
  }
  EXPECT_GE(spanning, 3) << "begin before the last round, or nothing was tested";
  serve(kind, Models(kind, 4, 16, 0, 16, 0), options_for(kind, 4), arrivals, want);
}

TEST_P(BatchedTreesLlama, StopTextsAreFoundAcrossTokensAndRounds) {
  for (const double temperature : {0., 0.8}) {
    SCOPED_TRACE(::testing::Message() << "temperature " << temperature);
    check_stops_across_rounds(kind_of(GetParam()), temperature);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, BatchedTreesLlama, ::testing::ValuesIn(kKinds),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace specdec::batch
