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

TreeWorkload random_workload(std::mt19937& random, bool prefix_cache) {
  TreeWorkload workload;
  workload.kind = random_kind(random);
  const int K = workload.kind.room().levels;
  const std::vector<TokenId> beginning = random_beginning(random);
  for (int i = between(random, 6, 14); i > 0; i--) {
    workload.arrivals.push_back({.request = random_table_request(random, beginning, K)});
    workload.arrivals.back().request.speculation.lenience = 1;
  }
  random_times(random, workload.arrivals);
  choose_sizes(random, workload, K, workload.kind.capacities(), workload.kind.shape != nullptr);
  workload.shape.options.prefix_cache = prefix_cache;
  return workload;
}

bool serve(std::mt19937& random, const TablePair& tables, bool prefix_cache) {
  const TreeWorkload workload = random_workload(random, prefix_cache);
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

TEST(BatchedTreesSameText, EveryRequestGetsWhatItGetsAloneWithAPrefixCache) {
  check_workloads(1, full() ? 4000 : 300, 100, true, serve);
}

TEST(BatchedTreesSameText, EveryRequestGetsWhatItGetsAloneWithoutAPrefixCache) {
  check_workloads(2, full() ? 2000 : 150, 50, false, serve);
}

}  // namespace
}  // namespace specdec::batch
