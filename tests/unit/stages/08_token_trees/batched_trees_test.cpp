// Trees in the engine of stage 6: whatever else is in a batch, a request gets the tokens that its
// trees would have given it alone, decided by the same logits, bit for bit.
#include "tests/unit/stages/08_token_trees/tree_batch.h"

namespace specdec::batch {
namespace {

constexpr int V = 6;
constexpr int kPositions = 96;  // of the target

TreeKind random_kind(std::mt19937& random) {
  const auto rules = sibling_rules();
  const NamedSiblingRule& rule = rules[random() % rules.size()];
  const int levels = between(random, 1, 5);
  if (rule.rule == nullptr) return {shape<Chains>(1, levels), &rule};
  if (rule.needs_same_draws) return {shape<Chains>(between(random, 1, 4), levels), &rule};
  switch (between(random, 0, 4)) {
    case 0:
      return {shape<Chains>(between(random, 1, 4), levels), &rule};
    case 1:
      return {shape<DistinctDrafts>(std::vector<int>{2, 2, 1}), &rule};
    case 2:
      return {shape<Likeliest>(plan_of_widths(std::vector<int>{3, 2, 1})), &rule};
    case 3:
      return {shape<GrownTree>(between(random, 2, 9), 3, levels), &rule, true};
    default:
      return {{}, &rule};
  }
}

struct Workload {
  TreeKind kind;
  TableShape shape;
  std::vector<Arrival> arrivals;
};

BatchRequest random_request(std::mt19937& random, const std::vector<TokenId>& beginning, int K) {
  BatchRequest request;
  GenerationRequest& g = request.generation;
  const auto shared =
      static_cast<std::ptrdiff_t>(one_in(random, 4) ? random() % 20 : 18 + random() % 8);
  g.prompt.assign(beginning.begin(), beginning.begin() + shared);
  for (int i = between(random, 1, 12); i > 0; i--) g.prompt.push_back(between(random, 0, V - 1));
  const auto prompt = static_cast<int>(g.prompt.size());
  g.max_new_tokens = between(random, 1, 36);
  if (one_in(random, 3)) g.eos_ids = {between(random, 0, V - 1)};
  request.speculation = random_speculation(random);
  request.speculation.lenience = 1;
  request.seed = random();
  request.spec_length = one_in(random, 5) ? 0 : between(random, 1, K);
  request.context_limit = kPositions;
  if (one_in(random, 4)) {  // the end of the context is reached, with no room for all levels
    request.context_limit = prompt + g.max_new_tokens + between(random, 0, K);
  } else if (one_in(random, 6)) {
    g.max_new_tokens = kPositions - prompt;
  }
  return request;
}

Workload random_workload(std::mt19937& random, bool prefix_cache) {
  Workload workload;
  workload.kind = random_kind(random);
  TableShape& shape = workload.shape;
  const Capacity room = workload.kind.room();
  const int K = room.levels, B = between(random, 2, 8);
  const std::vector<TokenId> beginning = random_tokens(26, V, static_cast<unsigned>(random()));
  const int n = between(random, 6, 14);
  for (int i = 0; i < n; i++) {
    workload.arrivals.push_back({.request = random_request(random, beginning, K)});
  }
  random_times(random, workload.arrivals);
  const int page_sizes[] = {1, 3, 16};
  shape.page_size = one_in(random, 16) ? kContiguous : one_of(random, page_sizes);
  shape.draft_page_size = one_in(random, 16) ? kContiguous : one_of(random, page_sizes);
  shape.positions = kPositions;
  shape.draft_positions = one_in(random, 4) ? between(random, 20, 70) : 1 << 20;
  std::int64_t most = 1, most_drafted = 1;
  const int draft_limit = workload.kind.shape ? shape.draft_positions : 1 << 30;
  for (const Arrival& a : workload.arrivals) {
    const MostCached cached = most_cached(a.request, workload.kind.capacities(), draft_limit);
    most = std::max(most, cached.by_target);
    most_drafted = std::max(most_drafted, cached.by_draft);
  }
  const auto pages = [&](std::int64_t tokens, int page_size) {
    if (page_size == kContiguous) return 0;
    const int least = pages_for(static_cast<int>(tokens), page_size);
    return least + between(random, 0, one_in(random, 6) ? 6 * least : least / 2);
  };
  shape.pages = pages(most, shape.page_size);
  shape.draft_pages = pages(most_drafted, shape.draft_page_size);
  const int rows = B * (room.verified + 1);
  shape.options = {.max_batch = B,
                   .spec_length = K,
                   .token_budget = rows + (one_in(random, 4) ? 0 : between(random, 1, 40)),
                   .prefill_chunk = one_in(random, 2) ? between(random, 1, 5) : 32,
                   .prefix_cache = prefix_cache,
                   .check_invariants = true};
  return workload;
}

// Whether the workload preempted, shared a prefix (where that is possible) and was ragged.
bool check(const TablePair& tables, const Workload& workload) {
  TreeEngine on(tables, workload.shape, workload.kind);
  TreeBatchRun run(on.engine, workload.arrivals, workload.kind.grown);
  run.run();
  if (::testing::Test::HasFailure()) return false;
  const std::string_view rule = workload.kind.rule->name;
  for (std::size_t i = 0; i < workload.arrivals.size(); i++) {
    SCOPED_TRACE(::testing::Message() << "arrival " << i << ", rule " << rule);
    const BatchRequest& request = workload.arrivals[i].request;
    const Outcome alone = on.alone(request);
    expect_as_alone(run.served()[i], alone);
    const bool matches = rule == "coupled" || rule == "sample-and-match";
    if (request.speculation.sampling.temperature == 0 || matches) {
      SCOPED_TRACE("plain decoding");
      expect_same_tokens(on.plain(request, matches ? rule : "rejection"), alone);
    }
  }
  const bool shares = workload.shape.options.prefix_cache;
  return run.preempted() && run.was_ragged() && (!shares || run.shared_a_prefix());
}

// Random workloads; how many of them had everything.
int check_workloads(unsigned seed, int count, bool prefix_cache) {
  std::mt19937 random(seed);
  int counted = 0;
  for (int i = 0; i < count && !::testing::Test::HasFailure(); i++) {
    SCOPED_TRACE(::testing::Message() << "workload " << i << " of seed " << seed);
    const TablePair tables(V, one_of(random, {0.0, 0.2, 0.5, 1.0}), random);
    counted += check(tables, random_workload(random, prefix_cache)) ? 1 : 0;
  }
  return counted;
}

TEST(BatchedTreesSameText, EveryRequestGetsWhatItGetsAloneWithAPrefixCache) {
  const int counted = check_workloads(1, full() ? 4000 : 300, true);
  RecordProperty("counted", counted);
  EXPECT_GE(counted, 100) << "of 300 that preempted, shared a prefix and were ragged";
}

TEST(BatchedTreesSameText, EveryRequestGetsWhatItGetsAloneWithoutAPrefixCache) {
  const int counted = check_workloads(2, full() ? 2000 : 150, false);
  RecordProperty("counted", counted);
  EXPECT_GE(counted, 50) << "of 150 that preempted and were ragged";
}

}  // namespace
}  // namespace specdec::batch
