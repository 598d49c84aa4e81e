// Stage 6's promise, on models without a network, for trees of drafts.
#include "tests/table_workload.h"
#include "tests/unit/stages/08_token_trees/tree_batch.h"

namespace specdec::batch {
namespace {

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

struct TreeWorkload : Workload {
  TreeKind kind;
};

TreeWorkload random_workload(std::mt19937& random, bool prefix_cache, const TreeKind& kind) {
  TreeWorkload workload;
  workload.kind = kind;
  const int K = workload.kind.room().levels;
  const std::vector<TokenId> beginning = random_beginning(random);
  for (int i = between(random, 6, 14); i > 0; i--) {
    workload.arrivals.push_back({.request = random_table_request(random, beginning, K)});
    workload.arrivals.back().request.speculation.lenience = 1;
  }
  random_times(random, workload.arrivals);
  choose_sizes(random, workload, K, workload.kind.capacities(),
               workload.kind.drafts_with_the_cache());
  workload.shape.options.prefix_cache = prefix_cache;
  return workload;
}

bool serve(std::mt19937& random, const TablePair& tables, bool prefix_cache, const TreeKind& kind) {
  const TreeWorkload workload = random_workload(random, prefix_cache, kind);
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
  return had_everything(run, prefix_cache);
}

bool serve_any(std::mt19937& random, const TablePair& tables, bool prefix_cache) {
  return serve(random, tables, prefix_cache, random_kind(random));
}

// Three models, of which one is the target itself.
bool serve_side_by_side(std::mt19937& random, const TablePair& tables, bool prefix_cache) {
  TableModel first(V, tables.draft->row_of()), second(V, tables.target->row_of());
  const TablePair others(V, 0.5, random);
  TableModel third(V, others.draft->row_of());
  const NamedSiblingRule* rule = nullptr;
  while (rule == nullptr || rule->rule == nullptr || rule->needs_same_draws) {
    rule = &sibling_rules()[random() % sibling_rules().size()];
  }
  return serve(random, tables, prefix_cache,
               {.shape = shape<Chains>(between(random, 1, 2), between(random, 1, 4)),
                .rule = rule,
                .grown = true,
                .beside = {&first, &third, &second}});
}

TEST(BatchedTreesSameText, EveryRequestGetsWhatItGetsAloneWithAPrefixCache) {
  check_workloads(1, full() ? 4000 : 300, 100, true, serve_any);
}

TEST(BatchedTreesSameText, EveryRequestGetsWhatItGetsAloneWithoutAPrefixCache) {
  check_workloads(2, full() ? 2000 : 150, 50, false, serve_any);
}

TEST(BatchedTreesSameText, EveryRequestGetsWhatItGetsAloneBySeveralModels) {
  check_workloads(3, full() ? 1000 : 100, 30, true, serve_side_by_side);
}

}  // namespace
}  // namespace specdec::batch
