// Stage 6's promise, on models without a network, for chains of drafts.
#include "tests/policy.h"
#include "tests/table_workload.h"

namespace specdec::batch {
namespace {

// Rounds whose best K varies with alpha, 0 among them.
std::vector<double> random_costs(std::mt19937& random, int K) {
  std::vector<double> costs = {1};
  for (int i = 1; i <= K; i++) costs.push_back(costs.back() + 0.05 * between(random, 1, 14));
  return costs;
}

Workload random_workload(std::mt19937& random, bool prefix_cache) {
  Workload workload;
  const int K = between(random, 1, 6);
  const std::vector<TokenId> beginning = random_beginning(random);
  const std::vector<double> costs = random_costs(random, K);
  for (int i = between(random, 6, 14); i > 0; i--) {
    BatchRequest request = random_table_request(random, beginning, K);
    if (one_in(random, 3)) {  // K adapts
      request.make_policy =
          [own = std::vector(costs.begin(), costs.begin() + request.spec_length + 1)] {
            return std::make_unique<AdaptiveSpecLength>(own);
          };
    }
    workload.arrivals.push_back({.request = request});
  }
  random_times(random, workload.arrivals);
  choose_sizes(random, workload, K, Capacity::of_chain, true);
  workload.shape.options.prefix_cache = prefix_cache;
  return workload;
}

bool serve(std::mt19937& random, const TablePair& tables, bool prefix_cache) {
  const Workload workload = random_workload(random, prefix_cache);
  TableEngine on(tables, workload.shape);
  BatchRun run(on.engine, workload.arrivals);
  run.run();
  if (::testing::Test::HasFailure()) return false;
  for (std::size_t i = 0; i < workload.arrivals.size(); i++) {
    SCOPED_TRACE(::testing::Message() << "arrival " << i);
    const BatchRequest& request = workload.arrivals[i].request;
    const Outcome alone = on.alone(request);
    expect_as_alone(run.served()[i], alone);
    if (is_plainly_greedy(request)) {
      SCOPED_TRACE("stage 4");
      expect_same_tokens(on.alone_greedily(request), alone);
    }
    if (request.speculation.sampling.temperature == 0 && request.speculation.lenience == 1) {
      SCOPED_TRACE("plain decoding");
      BatchRequest plain = request;
      plain.spec_length = 0;
      plain.make_policy = {};
      expect_same_tokens(on.alone(plain), alone);
    }
  }
  return had_everything(run, prefix_cache && workload.shape.page_size != kNoPages);
}

TEST(BatchSameText, EveryRequestGetsWhatItGetsAloneWithAPrefixCache) {
  check_workloads(1, full() ? 4000 : 400, 200, true, serve);
}

TEST(BatchSameText, EveryRequestGetsWhatItGetsAloneWithoutAPrefixCache) {
  check_workloads(2, full() ? 2000 : 200, 100, false, serve);
}

}  // namespace
}  // namespace specdec::batch
