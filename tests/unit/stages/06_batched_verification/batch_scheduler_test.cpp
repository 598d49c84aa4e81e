// Who computes what in a step: rules that hold in every step of every workload, and cases in which
// each of them decides something.
#include "tests/unit/stages/06_batched_verification/batch_engine_fixture.h"

namespace specdec {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::Pointee;

// ---- the rules

struct Before {
  std::vector<RequestId> admitted, waiting;
  std::map<RequestId, int> K;  // of running requests, for the next round
  struct Missing {
    int tokens = 0, draft_tokens = 0;
  };
  std::map<RequestId, Missing> to_fill;  // of prefilling ones
};

Before look_at(TestBatch& batch) {
  Before before;
  for (const RequestState* r : batch.engine().admitted()) {
    before.admitted.push_back(r->id);
    if (r->phase == Phase::kRunning) {
      before.K[r->id] = batch.engine().rounds().needs(*r).nodes;
    } else {
      before.to_fill[r->id] = {r->prefill_end() - batch.target.length(r->sequence),
                               batch.engine().rounds().draft_prefill_left(*r)};
    }
  }
  for (const RequestState* r : batch.engine().waiting()) before.waiting.push_back(r->id);
  return before;
}

bool contains(const std::vector<RequestId>& ids, RequestId id) {
  return std::ranges::find(ids, id) != ids.end();
}

// The youngest lose their pages, youngest first, and nobody comes in their place in that step.
void expect_youngest_preempted(const Before& before, const StepReport& report) {
  std::vector<RequestId> youngest(before.admitted.rbegin(), before.admitted.rend());
  youngest.resize(report.preempted.size());
  EXPECT_EQ(report.preempted, youngest);
  if (!report.preempted.empty()) {
    EXPECT_THAT(report.admitted, IsEmpty());
  }
}

void expect_first_come_first_admitted(const Before& before, const StepReport& report) {
  ASSERT_LE(report.admitted.size(), before.waiting.size());
  EXPECT_TRUE(std::ranges::equal(report.admitted,
                                 std::span(before.waiting).first(report.admitted.size()), {},
                                 &StepReport::Admission::id))
      << "nobody is overtaken";
}

// A round for everyone who runs; what is left is for those who prefill, oldest first.
void expect_everyone_served(const Before& before, const StepReport& report,
                            const EngineOptions& options) {
  std::map<RequestId, const StepReport::Part*> parts;
  for (const StepReport::Part& part : report.parts) {
    EXPECT_TRUE(parts.emplace(part.id, &part).second) << "one part a request";
  }
  int rows = options.token_budget;
  for (const auto& [id, K] : before.K) {
    rows -= K + 1;
    if (contains(report.preempted, id)) continue;
    ASSERT_TRUE(parts.contains(id)) << "request " << id << " runs and has a round";
    EXPECT_TRUE(parts[id]->is_round());
    EXPECT_EQ(parts[id]->round.drafted, K) << "K depends on nobody else";
  }
  for (const auto& [id, missing] : before.to_fill) {
    const int most = std::min(options.prefill_chunk, rows);
    if (most == 0 || contains(report.preempted, id)) continue;
    ASSERT_TRUE(parts.contains(id)) << "there is room to prefill request " << id;
    EXPECT_EQ(parts[id]->prefilled, std::min(most, missing.tokens));
    EXPECT_EQ(parts[id]->draft_prefilled, std::min(most, missing.draft_tokens));
    rows -= std::max(parts[id]->prefilled, parts[id]->draft_prefilled);
  }
}

void expect_order_of_parts(const StepReport& report) {
  const auto key = [](const StepReport::Part& p) { return std::pair(!p.is_round(), p.id); };
  EXPECT_TRUE(std::ranges::is_sorted(report.parts, {}, key)) << "rounds first, oldest first";
}

// What is cached of a text after a round: all but the pending token, and in the draft all of it
// that it has seen and that was kept.
void expect_cached_lengths(TestBatch& batch, const StepReport& report) {
  for (const RequestState* r : batch.engine().admitted()) {
    for (const StepReport::Part& part : report.parts) {
      if (part.id != r->id || !part.is_round() || part.round.drafted == 0) continue;
      const int seen = part.round.start + part.round.drafted;
      const int kept = part.round.start + part.round.accepted + 1;
      EXPECT_EQ(batch.target.length(r->sequence), kept);
      EXPECT_EQ(batch.draft.length(r->draft_sequence), std::min(seen, kept));
    }
  }
}

// A step in which all rules are checked.
const StepReport& watched_step(TestBatch& batch) {
  const Before before = look_at(batch);
  const StepReport& report = batch.engine().step();
  SCOPED_TRACE(to_text(report));
  const EngineOptions& options = batch.engine().options();
  EXPECT_LE(report.rows(), options.token_budget);
  EXPECT_FALSE(report.given_up) << "plans come true";
  EXPECT_LE(report.most_pages, batch.engine().target_pool().n_pages());
  expect_youngest_preempted(before, report);
  expect_first_come_first_admitted(before, report);
  expect_everyone_served(before, report, options);
  expect_order_of_parts(report);
  expect_cached_lengths(batch, report);
  return report;
}

// Steps that a request needs at most while it is the oldest: one token each, and the way back.
int longest_life(const BatchRequest& request) {
  return static_cast<int>(request.generation.prompt.size()) + request.generation.max_new_tokens + 1;
}

// ---- random workloads

// How many pages of a pool the largest of the requests needs, alone.
int pages_for_largest(BatchSetup setup, PoolSize BatchSetup::*pool,
                      const std::vector<BatchRequest>& requests) {
  (setup.*pool).pages = 1;
  for (const BatchRequest& request : requests) {
    while (!error_message([&] { TestBatch(setup).add(request); }).empty()) (setup.*pool).pages++;
  }
  return (setup.*pool).pages;
}

struct Workload {
  explicit Workload(unsigned seed) : random(seed) {
    for (int i = 0; i < 8; i++) requests.push_back(some_request());
    EngineOptions& options = setup.options;
    options.max_batch = pick(1, 5);
    options.token_budget = options.max_batch * (options.spec_length + 1) + pick(0, 6);
    options.prefill_chunk = pick(1, 9);
    options.prefix_cache = pick(0, 2) > 0;
    setup.target.page_size = std::vector{1, 3, 16}[random() % 3];
    setup.draft.page_size = std::vector{1, 3, 16}[random() % 3];
    if (pick(0, 4) == 0) setup.draft_max_seq_len = pick(5, 40);
    setup.target.pages = 300;
    setup.draft.pages = 300;
    const int slack = pick(0, 2) * pick(0, 3);
    const int target_pages = pages_for_largest(setup, &BatchSetup::target, requests);
    setup.draft.pages = pages_for_largest(setup, &BatchSetup::draft, requests) + slack;
    setup.target.pages = target_pages + slack;
  }

  int pick(int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  }
  BatchRequest some_request() {
    const bool is_long = pick(0, 2) == 0;
    BatchRequest request = sampled_request(some_prompt(pick(1, is_long ? 24 : 8), pick(0, 2)),
                                           pick(1, is_long ? 24 : 6), pick(0, 4), random());
    if (pick(0, 1) == 0) request.generation.eos_ids = {4};
    return request;
  }

  std::mt19937 random;
  BatchSetup setup;
  std::vector<BatchRequest> requests;
};

// "Fits alone" must be enough: whatever the prefix cache and the others have left behind.
TEST(BatchSchedulerTest, PoolsThatOnlyJustHoldOneRequestBringAllToTheirEnd) {
  std::int64_t preempted = 0, prefix_hits = 0;
  for (unsigned seed = 0; seed < 250; seed++) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Workload work(seed);
    TestBatch batch(work.setup);
    int bound = 0;
    for (const BatchRequest& request : work.requests) {
      batch.add(request);
      bound += longest_life(request);
    }
    for (int step = 0; !batch.engine().idle(); step++) {
      ASSERT_LT(step, bound) << "the oldest gets on in every step";
      watched_step(batch);
      if (HasFailure()) return;
    }
    expect_same_outputs(batch.take_results(), undisturbed(work.requests, work.setup));
    preempted += batch.engine().stats().preemptions;
    prefix_hits += batch.engine().stats().admissions_with_prefix;
    batch.expect_no_leak();
    if (HasFailure()) return;
  }
  EXPECT_GT(preempted, 100);
  EXPECT_GT(prefix_hits, 100);
}

// However many come after it, a request ends within the time of those before it.
TEST(BatchSchedulerTest, NobodyStarvesInAStreamOfArrivals) {
  for (unsigned seed = 0; seed < 20; seed++) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Workload work(seed);
    TestBatch batch(work.setup);
    std::map<RequestId, int> deadline;
    int last_deadline = 0;
    for (int step = 0; step < 60 || !batch.engine().idle(); step++) {
      if (step < 60) {
        const BatchRequest& request = work.requests[work.random() % work.requests.size()];
        last_deadline = std::max(last_deadline, step) + longest_life(request);
        deadline[batch.add(request)] = last_deadline;
      }
      const StepReport& report = watched_step(batch);
      for (const RequestId id : report.finished) EXPECT_LE(step, deadline.at(id)) << id;
      ASSERT_LT(step, last_deadline + 1);
    }
    EXPECT_EQ(batch.take_results().size(), 60u);
  }
}

// ---- single rules

TEST(BatchSchedulerTest, TheYoungestMakesRoomAndComesBack) {
  BatchSetup setup;
  setup.target_rows = setup.draft_rows = always(1);
  setup.target = {10, 3};
  TestBatch batch(setup);
  for (int i = 0; i < 3; i++) batch.add(greedy_request({i}, 22, 0));
  std::vector<RequestId> preempted;
  while (!batch.engine().idle()) {
    const StepReport& report = watched_step(batch);
    preempted.insert(preempted.end(), report.preempted.begin(), report.preempted.end());
  }
  // Ten pages are three for each of three, and five for each of two; when the first has ended, the
  // other two come back, and again there is not enough for both.
  EXPECT_THAT(preempted, ElementsAre(2, 1, 2));
  const Results results = batch.take_results();
  for (RequestId id = 0; id < 3; id++) {
    EXPECT_EQ(results.at(id).tokens, std::vector<TokenId>(22, 1));
    EXPECT_EQ(batch.heard.at(id).tokens, results.at(id).tokens) << "nothing comes twice";
    EXPECT_EQ(results.at(id).stats.preemptions, id);
  }
}

// Both requests computed the same prompt side by side, each for itself. The younger one's copy is
// worth more to others than to itself, as it would find those pages in the prefix cache: there is
// room for it at once, and if it came back, the same would happen again and again.
TEST(BatchSchedulerTest, WhoWasPutOutDoesNotComeBackInTheSameStep) {
  BatchSetup setup;
  setup.target_rows = setup.draft_rows = always(1);
  setup.target = {10, 3};
  TestBatch batch(setup);
  for (int i = 0; i < 2; i++) batch.add(greedy_request(some_prompt(13), 8, 0));
  while (batch.engine().stats().preemptions == 0) {
    ASSERT_FALSE(batch.engine().idle());
    watched_step(batch);
  }
  EXPECT_THAT(batch.engine().admitted(), ElementsAre(Pointee(Field(&RequestState::id, 0))));
  ASSERT_EQ(batch.engine().waiting().size(), 1u);
  const RequestState& out = *batch.engine().waiting().front();
  const KvPool& pool = batch.engine().target_pool();
  const int found = pool.prefixes()->match_length(out.context);
  EXPECT_EQ(found, 12) << "the prompt's pages, which the other one has";
  EXPECT_LE(pool.growth(found, out.prefill_end() + 1), pool.n_free()) << "there was room for it";
  const StepReport& report = watched_step(batch);
  ASSERT_EQ(report.admitted.size(), 1u);
  EXPECT_EQ(report.admitted[0].id, 1);
  EXPECT_EQ(report.admitted[0].found, found);
}

// The first request needs all pages to the end, and the prefix cache holds two that it cannot do
// without: the second of its prompt, which hangs on a first page that was another's.
TEST(BatchSchedulerTest, ACachedPageThatOnlyTheCacheOwnsNeverStandsInTheWay) {
  BatchSetup setup;
  setup.target = {9, 3};
  TestBatch batch(setup);
  const std::vector<BatchRequest> requests = {greedy_request(some_prompt(4), 1, 0),
                                              greedy_request(some_prompt(7), 20, 0)};
  for (const BatchRequest& request : requests) batch.add(request);
  while (!batch.engine().idle()) watched_step(batch);
  expect_same_outputs(batch.take_results(), undisturbed(requests));
}

TEST(BatchSchedulerTest, ALongPromptIsPrefilledInChunksBesideRounds) {
  BatchSetup setup;
  setup.options.prefill_chunk = 100;
  setup.options.token_budget = 22;
  TestBatch batch(setup);
  batch.add(greedy_request({1}, 40, 4));
  batch.add(greedy_request(some_prompt(50), 2, 4));
  std::vector<int> chunks;
  while (batch.engine().stats().rounds < 4) {
    for (const StepReport::Part& part : watched_step(batch).parts) {
      if (part.prefilled > 0) chunks.push_back(part.prefilled);
    }
  }
  EXPECT_THAT(chunks, ElementsAre(17, 17, 15)) << "what the first one's rounds of 5 rows leave";
}

// It has no prompt to be computed, so all that it lacks is rows.
TEST(BatchSchedulerTest, AFirstRoundWaitsWhereTheBudgetHasNoRowsLeftForIt) {
  struct Case {
    int chunk, rounds;
  };
  for (const Case& c : std::vector<Case>{{5, 1}, {6, 0}, {9, 0}, {10, 0}}) {
    SCOPED_TRACE(
        fmt::format("a chunk of {} leaves {} rows for a round of 5", c.chunk, 10 - c.chunk));
    BatchSetup setup;
    setup.options.max_batch = 2;
    setup.options.token_budget = 10;
    setup.options.prefill_chunk = c.chunk;
    TestBatch batch(setup);
    batch.add(greedy_request(some_prompt(30), 9, 4));
    batch.add(greedy_request({1}, 9, 4));
    const StepReport& report = watched_step(batch);
    EXPECT_EQ(report.rounds(), c.rounds);
    EXPECT_EQ(report.rows(), c.chunk + 5 * c.rounds);
    EXPECT_EQ(report.admitted.size(), c.chunk == 10 ? 1u : 2u);
    if (c.chunk == 10) continue;
    EXPECT_EQ(batch.engine().admitted()[1]->phase, Phase::kRunning);
    EXPECT_EQ(watched_step(batch).rounds(), 1) << "from now on its rounds come first";
  }
}

// Of either pool, each with its own page size.
TEST(BatchSchedulerTest, ARequestIsAdmittedWhenBothPoolsHaveRoomForItsFirstRound) {
  struct Case {
    PoolSize target, draft;
    std::size_t admitted;
  };
  // A request of 10 prompt tokens and K = 3 needs 13 positions in the target, 12 in the draft.
  const std::vector<Case> cases = {
      {{26, 1}, {24, 1}, 2}, {{25, 1}, {99, 1}, 1}, {{99, 1}, {23, 1}, 1}, {{10, 3}, {2, 16}, 2},
      {{9, 3}, {2, 16}, 1},  {{2, 16}, {8, 3}, 2},  {{2, 16}, {7, 3}, 1},  {{1, 16}, {99, 3}, 1}};
  for (const Case& c : cases) {
    SCOPED_TRACE(fmt::format("{} of {}, {} of {}", c.target.pages, c.target.page_size,
                             c.draft.pages, c.draft.page_size));
    BatchSetup setup{.target = c.target, .draft = c.draft};
    TestBatch batch(setup);
    for (int i = 0; i < 2; i++) batch.add(greedy_request(some_prompt(10, i), 1, 3));
    EXPECT_EQ(watched_step(batch).admitted.size(), c.admitted);
  }
}

TEST(BatchSchedulerTest, WithoutSpeculationNoDraftPageIsTaken) {
  BatchSetup setup;
  setup.draft = {1, 1};
  TestBatch batch(setup);
  std::vector<BatchRequest> requests = mixed_requests();
  for (BatchRequest& request : requests) {
    request.spec_length = 0;
    batch.add(request);
  }
  while (!batch.engine().idle()) {
    EXPECT_EQ(watched_step(batch).most_draft_pages, 0);
  }
  EXPECT_EQ(batch.drafter->forwards(), 0);
  expect_same_outputs(batch.take_results(), undisturbed(requests));
}

// Round by round what it is alone, though pages are short and the others change.
TEST(BatchSchedulerTest, RoundsOfARequestDoNotDependOnTheBatch) {
  using Rounds = std::map<RequestId, std::vector<std::array<int, 3>>>;
  const auto rounds_of = [](const BatchSetup& setup, const std::vector<BatchRequest>& requests) {
    TestBatch batch(setup);
    for (const BatchRequest& request : requests) batch.add(request);
    Rounds rounds;
    while (!batch.engine().idle()) {
      for (const auto& part : watched_step(batch).parts) {
        if (!part.is_round()) continue;
        rounds[part.id].push_back({part.round.start, part.round.drafted, part.round.accepted});
      }
    }
    return std::pair(rounds, batch.engine().stats().preemptions);
  };
  BatchSetup tight;
  tight.max_seq_len = 35;  // the longest one comes to within K of the end
  tight.target = {13, 3};
  const auto [together, preemptions] = rounds_of(tight, mixed_requests());
  EXPECT_GT(preemptions, 0);
  BatchSetup ample = tight;
  ample.target = {300, 3};
  for (RequestId id = 0; id < 6; id++) {
    const auto alone =
        rounds_of(ample, {mixed_requests()[static_cast<std::size_t>(id)]}).first.at(0);
    EXPECT_EQ(together.at(id), alone) << "request " << id;
  }
}

}  // namespace
}  // namespace specdec
