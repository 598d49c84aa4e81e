// Stage 6's promise, on models without a network: whatever else is in a batch, whenever a request
// comes and whatever it loses on the way, it gets the tokens that it would have got alone, decided
// by the same logits, bit for bit.
#include "tests/batch_tables.h"
#include "tests/policy.h"

namespace specdec::batch {
namespace {

constexpr int V = 6;
constexpr int kPositions = 96;  // of the target

struct Workload {
  TableShape shape;
  std::vector<Arrival> arrivals;
  bool with_everything = false;  // made to preempt, to share prefixes and to be ragged
};

// Rounds whose best K varies with alpha, 0 among them.
std::vector<double> random_costs(std::mt19937& random, int K) {
  std::vector<double> costs = {1};
  for (int i = 1; i <= K; i++) costs.push_back(costs.back() + 0.05 * between(random, 1, 14));
  return costs;
}

BatchRequest random_request(std::mt19937& random, const std::vector<TokenId>& beginning, int K,
                            const std::vector<double>& costs) {
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
  request.seed = random();
  request.spec_length = one_in(random, 5) ? 0 : between(random, 0, K);
  if (one_in(random, 3)) {  // K adapts
    request.make_policy =
        [own = std::vector(costs.begin(), costs.begin() + request.spec_length + 1)] {
          return std::make_unique<AdaptiveSpecLength>(own);
        };
  }
  if (one_in(random, 4)) {  // the end of the context is reached, with no room for all drafts
    request.context_limit = prompt + g.max_new_tokens + between(random, 0, K);
  } else if (one_in(random, 6)) {
    g.max_new_tokens = kPositions - prompt;
  }
  return request;
}

// What the largest request needs alone, in pages.
int least_pages(const std::vector<Arrival>& arrivals, int page_size) {
  int least = 1;
  for (const Arrival& a : arrivals) {
    const GenerationRequest& g = a.request.generation;
    const int tokens =
        static_cast<int>(g.prompt.size()) + g.max_new_tokens - 1 + a.request.spec_length;
    least = std::max(least, pages_for(std::min(tokens, kPositions), page_size));
  }
  return least;
}

Workload random_workload(std::mt19937& random, bool prefix_cache) {
  Workload workload;
  TableShape& shape = workload.shape;
  const int K = between(random, 1, 6), B = between(random, 2, 8);
  const std::vector<TokenId> beginning = random_tokens(26, V, static_cast<unsigned>(random()));
  const std::vector<double> costs = random_costs(random, K);
  const int n = between(random, 6, 14);
  for (int i = 0; i < n; i++) {
    workload.arrivals.push_back({.request = random_request(random, beginning, K, costs)});
  }
  random_times(random, workload.arrivals);
  const int page_sizes[] = {1, 3, 16};
  shape.page_size = one_in(random, 16) ? kContiguous : one_of(random, page_sizes);
  shape.draft_page_size = one_in(random, 16) ? kContiguous : one_of(random, page_sizes);
  shape.positions = kPositions;
  shape.draft_positions = one_in(random, 4) ? between(random, 20, 70) : 1 << 20;
  const auto pages = [&](int page_size) {
    if (page_size == kContiguous) return 0;
    const int least = least_pages(workload.arrivals, page_size);
    return least + between(random, 0, one_in(random, 6) ? 6 * least : least / 2);
  };
  shape.pages = pages(shape.page_size);
  shape.draft_pages = pages(shape.draft_page_size);
  shape.options = {.max_batch = B,
                   .spec_length = K,
                   .token_budget = B * (K + 1) + (one_in(random, 4) ? 0 : between(random, 1, 40)),
                   .prefill_chunk = one_in(random, 2) ? between(random, 1, 5) : 32,
                   .prefix_cache = prefix_cache,
                   .check_invariants = true};
  workload.with_everything = prefix_cache && shape.page_size != kContiguous;
  return workload;
}

// Whether the workload preempted, shared a prefix (where that is possible) and was ragged.
bool check(const TablePair& tables, const Workload& workload) {
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

TEST(BatchSameText, EveryRequestGetsWhatItGetsAloneWithAPrefixCache) {
  const int counted = check_workloads(1, full() ? 4000 : 400, true);
  RecordProperty("counted", counted);
  EXPECT_GE(counted, 200) << "of 400 that preempted, shared a prefix and were ragged";
}

TEST(BatchSameText, EveryRequestGetsWhatItGetsAloneWithoutAPrefixCache) {
  const int counted = check_workloads(2, full() ? 2000 : 200, false);
  RecordProperty("counted", counted);
  EXPECT_GE(counted, 100) << "of 200 that preempted and were ragged";
}

}  // namespace
}  // namespace specdec::batch
