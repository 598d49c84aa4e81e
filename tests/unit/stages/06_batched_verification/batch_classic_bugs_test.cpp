// Where batches of speculative rounds classically go wrong: one test for each way, named after what
// must be true instead.
#include "common/run_stats.h"
#include "tests/batch_tables.h"
#include "tests/test_support.h"

namespace specdec::batch {
namespace {

constexpr int V = 6;

// A greedy request with K = 4 on a prompt of random tokens.
BatchRequest greedy_request(unsigned seed, int prompt_tokens, int max_new_tokens) {
  BatchRequest request;
  request.generation.prompt = random_tokens(prompt_tokens, V, seed);
  request.generation.max_new_tokens = max_new_tokens;
  request.seed = seed;
  request.spec_length = 4;
  return request;
}

BatchRequest sampled_request(unsigned seed, int prompt_tokens, int max_new_tokens) {
  BatchRequest request = greedy_request(seed, prompt_tokens, max_new_tokens);
  request.speculation = {.sampling = {.temperature = 1}, .draft_temperature = 1};
  return request;
}

std::vector<Arrival> at_once(const std::vector<BatchRequest>& requests) {
  std::vector<Arrival> arrivals;
  for (const BatchRequest& request : requests) arrivals.push_back({.request = request});
  return arrivals;
}

void expect_all_as_alone(const TableEngine& on, const BatchRun& run) {
  for (std::size_t i = 0; i < run.arrivals().size(); i++) {
    SCOPED_TRACE(::testing::Message() << "arrival " << i);
    expect_as_alone(run.served()[i], on.alone(run.arrivals()[i].request));
  }
}

class BatchClassicBugs : public ::testing::Test {
 protected:
  // disagreement: of the draft with the target; 0: it is always right.
  TablePair tables(double disagreement) { return {V, disagreement, random_}; }

  std::mt19937 random_{7};
};

// Requests that end at different times; whoever waits takes a slot, a sequence id and pages over
// while the others are in the middle of their texts.
TEST_F(BatchClassicBugs, WhoTakesOverASlotHasNothingOfItsLastOwner) {
  const TablePair pair = tables(0.3);
  std::vector<BatchRequest> requests;
  for (unsigned i = 0; i < 8; i++) {
    requests.push_back(
        sampled_request(i, 3 + static_cast<int>(i), 2 + static_cast<int>(i * 5 % 19)));
  }
  for (const int page_size : {kNoPages, 1, 3}) {
    SCOPED_TRACE(::testing::Message() << "pages of " << page_size);
    TableShape shape{.page_size = page_size, .draft_page_size = page_size};
    shape.options.max_batch = 3;
    TableEngine on(pair, shape);
    BatchRun run(on.engine, at_once(requests));
    run.run();
    expect_all_as_alone(on, run);
    int taken_over = 0;  // admitted while others go on
    for (const StepReport& report : run.reports()) {
      taken_over += !report.admitted.empty() && report.rounds() > 0 ? 1 : 0;
    }
    EXPECT_GE(taken_over, 3) << "or nothing was tested";
  }
}

// Texts over different tokens, with penalties so strong that whose history counts decides.
TEST_F(BatchClassicBugs, PenaltiesLookAtTheRequestsOwnHistory) {
  const TablePair pair = tables(0.3);
  std::vector<BatchRequest> requests;
  for (unsigned i = 0; i < 6; i++) {
    BatchRequest request = i % 2 == 0 ? greedy_request(i, 4, 20) : sampled_request(i, 4, 20);
    request.generation.prompt.assign(4, static_cast<TokenId>(i));
    request.speculation.sampling.repetition_penalty = i % 3 == 0 ? 1 : 3.0;
    requests.push_back(request);
  }
  TableShape shape;
  shape.options.max_batch = 6;
  TableEngine on(pair, shape);
  BatchRun run(on.engine, at_once(requests));
  run.run();
  expect_all_as_alone(on, run);
  BatchRequest other = requests[1];  // the control
  other.speculation.sampling.repetition_penalty = 1;
  EXPECT_NE(on.alone(other).tokens, run.served()[1].outcome.tokens) << "the penalty matters";
}

// One pool is short, the other is not: whoever loses its pages in one gives them back in both, and
// comes back on others.
TEST_F(BatchClassicBugs, ARequestThatLostItsPagesReadsNoStaleOnes) {
  const TablePair pair = tables(0.3);
  std::vector<BatchRequest> requests;
  for (unsigned i = 0; i < 5; i++) requests.push_back(sampled_request(i, 5, 30));
  for (const int page_size : {1, 3, 16}) {
    for (const bool draft_is_short : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "pages of " << page_size << ", the "
                                        << (draft_is_short ? "draft" : "target") << " is short");
      TableShape shape{.page_size = page_size, .draft_page_size = page_size};
      const int few = pages_for(5 + 30 + 4, page_size) + 2, many = 6 * few;
      shape.pages = draft_is_short ? many : few;
      shape.draft_pages = draft_is_short ? few : many;
      shape.options.prefix_cache = false;
      TableEngine on(pair, shape);
      BatchRun run(on.engine, at_once(requests));
      run.run();
      EXPECT_TRUE(run.preempted()) << "or nothing was tested";
      expect_all_as_alone(on, run);
    }
  }
}

// The draft is always right and the eos is one of its drafts, with others behind it; beside it a
// request that goes on.
TEST_F(BatchClassicBugs, NothingComesAfterAnEosThatWasAcceptedMidRound) {
  const TablePair pair = tables(0);
  TableEngine on(pair, {});
  BatchRequest stops = greedy_request(1, 5, 30);
  const std::vector<TokenId> text = on.alone(stops).tokens;
  const auto end = std::ranges::find_if(text, [&](TokenId id) {
    const auto at = std::ranges::find(text, id) - text.begin();
    return at % 5 == 1 || at % 5 == 2;  // in the middle of a round of 5
  });
  ASSERT_NE(end, text.end());
  stops.generation.eos_ids = {*end};
  BatchRun run(on.engine, at_once({greedy_request(2, 7, 30), stops, greedy_request(3, 4, 30)}));
  run.run();
  expect_all_as_alone(on, run);
  const Served& stopped = run.served()[1];
  EXPECT_EQ(stopped.outcome.finish_reason, FinishReason::kStop);
  EXPECT_EQ(std::ranges::count(stopped.outcome.tokens, *end), 1);
  EXPECT_EQ(stopped.outcome.tokens.back(), *end) << "the eos is the last token";
  const Round& last = stopped.outcome.rounds.back();
  EXPECT_LT(last.accepted, last.drafted) << "there were drafts behind it, or nothing was tested";
}

// The drafts behind a stop were not tested, and the bonus is not a draft.
TEST_F(BatchClassicBugs, ADraftThatIsAlwaysRightIsAcceptedAlwaysWhateverStopsTheText) {
  const TablePair pair = tables(0);
  TableEngine on(pair, {});
  std::vector<BatchRequest> requests;
  for (unsigned i = 0; i < 4; i++)
    requests.push_back(greedy_request(i, 5, 11 + static_cast<int>(i)));
  BatchRun run(on.engine, at_once(requests));
  run.run();
  bool cut = false;
  for (const Served& s : run.served()) {
    const RunStats& stats = s.result.stats.run;
    EXPECT_EQ(stats.accepted, stats.tested) << "alpha is 1";
    EXPECT_EQ(stats.accepted, stats.counted) << "the acceptance rate is 1";
    EXPECT_EQ(stats.sum_round_acceptance, static_cast<double>(stats.drafted_rounds));
    EXPECT_LT(stats.accepted, stats.emitted) << "the bonus tokens are no drafts";
    EXPECT_EQ(stats.accepted_at, stats.drafted_at);
    cut = cut || stats.drafted > stats.counted;
  }
  EXPECT_TRUE(cut) << "a round was cut short, or nothing was tested";
}

// After a full acceptance the draft has not seen its last draft: it catches up, and is right again.
TEST_F(BatchClassicBugs, ADraftThatIsAlwaysRightStaysRightAfterFullAcceptance) {
  const TablePair pair = tables(0);
  TableEngine on(pair, {});
  BatchRun run(on.engine, at_once({greedy_request(1, 5, 26), greedy_request(2, 9, 26),
                                   greedy_request(3, 1, 26)}));
  run.run();
  for (const Served& s : run.served()) {
    EXPECT_EQ(s.outcome.rounds.size(), 6u) << "26 tokens, five a round";
    for (const Round& round : s.outcome.rounds) EXPECT_NE(round.end, RoundEnd::kRejected);
  }
}

// It costs no token that the draft has seen already: what it is fed in a round is what the last one
// emitted, no more.
TEST_F(BatchClassicBugs, TheDraftIsNotRolledBackTooFar) {
  const TablePair pair = tables(0.6);
  TableEngine on(pair, {});
  for (unsigned i = 0; i < 3; i++) on.engine.add_request(sampled_request(i, 6, 30));
  int rejected = 0;
  while (!on.engine.idle()) {
    for (const StepReport::Part& part : on.engine.step().parts) {
      if (!part.is_round() || part.length == 0 || part.round.drafted == 0) continue;
      const auto requests = on.engine.requests();
      const auto state = std::ranges::find(requests, part.id, [](auto* r) { return r->id; });
      const bool all = part.round.accepted == part.round.drafted;
      EXPECT_EQ(part.length - on.drafter->length((*state)->draft_sequence), all ? 1 : 0)
          << "tokens of the text that only the target has";
      rejected += all ? 0 : 1;
    }
  }
  EXPECT_GT(rejected, 5) << "or nothing was tested";
}

// At the ends of the target's and the draft's contexts K shrinks, for those who are there and
// nobody else.
TEST_F(BatchClassicBugs, TheLastRoundsFitIntoBothContexts) {
  const TablePair pair = tables(0.2);
  constexpr int kLimit = 40;
  for (const int draft_limit : {25, 38, 39, 40, 1 << 20}) {
    SCOPED_TRACE(::testing::Message() << "the draft has " << draft_limit << " positions");
    TableShape shape{
        .page_size = 1, .draft_page_size = 1, .positions = kLimit, .draft_positions = draft_limit};
    TableEngine on(pair, shape);
    std::vector<BatchRequest> requests = {
        sampled_request(1, 8, kLimit - 8), greedy_request(2, 30, kLimit - 30),
        sampled_request(3, kLimit - 1, 1), greedy_request(4, 4, 20)};
    requests[3].context_limit = 24;
    BatchRun run(on.engine, at_once(requests));
    run.run();
    expect_all_as_alone(on, run);
    int shrunk = 0;
    for (std::size_t i = 0; i < requests.size(); i++) {
      const int limit = i == 3 ? 24 : kLimit;
      for (const Round& round : run.served()[i].outcome.rounds) {
        EXPECT_LE(round.start + round.drafted + 1, limit);
        EXPECT_LE(round.drafted == 0 ? 0 : round.start + round.drafted, draft_limit);
        const int room = std::min(limit - round.start - 1, draft_limit - round.start);
        EXPECT_EQ(round.drafted, std::clamp(room, 0, 4)) << "and K is not smaller than it must be";
        shrunk += round.drafted < 4 ? 1 : 0;
      }
    }
    EXPECT_GE(shrunk, 1) << "or nothing was tested";
  }
}

// ---- the draft's pages

struct DraftPages : BatchClassicBugs {
  TablePair pair = tables(0.3);
  static TableShape shape() {
    TableShape shape{.draft_page_size = 1};
    shape.options.prefix_cache = false;
    return shape;
  }
  // Of the requests that are admitted.
  static int owned(const TableEngine& on) {
    int pages = 0;
    for (const RequestState* r : on.engine.admitted()) {
      if (r->draft_sequence == RequestState::kNoSequence) continue;
      pages += on.drafter->length(r->draft_sequence);
    }
    return pages;
  }
};

TEST_F(DraftPages, AreFreeWhenARequestFinishes) {
  TableEngine on(pair, shape());
  on.engine.add_request(greedy_request(1, 5, 3));
  on.engine.add_request(greedy_request(2, 5, 30));
  int finished = 0;
  while (!on.engine.idle()) {
    const StepReport& report = on.engine.step();
    finished += static_cast<int>(report.finished.size());
    EXPECT_EQ(report.draft_pages, owned(on)) << to_text(report);
  }
  EXPECT_EQ(finished, 2);
  EXPECT_EQ(on.engine.draft_pool().n_used(), 0);
}

TEST_F(DraftPages, AreFreeWhenARequestIsCancelled) {
  TableEngine on(pair, shape());
  const RequestId id = on.engine.add_request(greedy_request(1, 5, 30));
  on.engine.step();
  on.engine.step();
  ASSERT_GE(on.engine.draft_pool().n_used(), 5) << "it has drafted";
  EXPECT_TRUE(on.engine.cancel(id));
  on.engine.step();
  EXPECT_EQ(on.engine.draft_pool().n_used(), 0);
  EXPECT_EQ(on.engine.target_pool().n_used(), 0);
}

TEST_F(DraftPages, AreFreeWhenARequestIsPreempted) {
  TableShape short_of_pages = shape();
  short_of_pages.page_size = 1;
  short_of_pages.pages = 5 + 30 + 8;
  TableEngine on(pair, short_of_pages);
  for (unsigned i = 0; i < 3; i++) on.engine.add_request(sampled_request(i, 5, 30));
  int preempted = 0;
  while (!on.engine.idle()) {
    const StepReport& report = on.engine.step();
    preempted += static_cast<int>(report.preempted.size());
    EXPECT_EQ(report.draft_pages, owned(on)) << to_text(report);
  }
  EXPECT_GT(preempted, 0) << "or nothing was tested";
}

// ---- what random workloads found

// Two prompts that begin alike, computed at the same time: each has a copy of the beginning, and
// the cache keeps the first one. The longer request goes on alone, in pages for itself only; so its
// own pages must not keep the copy that it does not use.
TEST_F(BatchClassicBugs, ACopyOfAPrefixThatNobodyUsesMakesRoom) {
  const TablePair pair = tables(0.3);
  BatchRequest brief = greedy_request(1, 13, 1), extended = greedy_request(1, 17, 20);
  brief.generation.prompt = {extended.generation.prompt.begin(),
                             extended.generation.prompt.begin() + 13};
  for (BatchRequest* request : {&brief, &extended}) request->spec_length = 0;
  TableShape shape{.page_size = 4, .pages = pages_for(17 + 20 - 1, 4)};
  shape.options.token_budget = 40;
  TableEngine on(pair, shape);
  BatchRun run(on.engine, at_once({brief, extended}));
  run.run();
  expect_all_as_alone(on, run);
}

// The target's context, too, ends what the draft caches.
TEST_F(BatchClassicBugs, ARequestWhoseDraftsJustFitIsNotRefused) {
  const TablePair pair = tables(0.3);
  BatchRequest request = greedy_request(1, 10, 22);
  request.context_limit = 32;
  TableShape shape{.page_size = 1, .draft_page_size = 1, .pages = 32, .draft_pages = 31};
  TableEngine on(pair, shape);
  BatchRun run(on.engine, at_once({request}));
  run.run();
  expect_all_as_alone(on, run);
  EXPECT_EQ(on.engine.draft_pool().peak_used(), 31) << "all pages are needed";
}

// One page less in either pool, and a request that needs all of them is refused at once.
TEST_F(BatchClassicBugs, ARequestWhoseDraftsDoNotFitIsRefused) {
  const TablePair pair = tables(0.3);
  for (const bool draft_is_short : {false, true}) {
    TableShape shape{.page_size = 1, .draft_page_size = 1, .pages = 34, .draft_pages = 33};
    BatchRequest request = greedy_request(1, 10, 21);  // 29 + 4 + 1 tokens, and 29 + 4
    TableEngine fits(pair, shape);
    fits.engine.add_request(request);
    (draft_is_short ? shape.draft_pages : shape.pages)--;
    TableEngine on(pair, shape);
    EXPECT_ERROR(on.engine.add_request(request),
                 draft_is_short ? "33 tokens in the draft" : "34 tokens in the target");
  }
}

// A callback cancels a younger request that has tokens in the same step: it hears nothing until its
// end.
TEST_F(BatchClassicBugs, ARequestThatIsCancelledByACallbackHearsOnlyOfItsEnd) {
  const TablePair pair = tables(0.3);
  TableEngine on(pair, {});
  std::vector<Arrival> arrivals = at_once({greedy_request(1, 5, 20), greedy_request(2, 5, 20)});
  arrivals[1].cancelled_by = 0;
  arrivals[1].cancelled_by_delivery = 1;
  BatchRun run(on.engine, arrivals);
  run.run();
  expect_all_as_alone(on, run);
  EXPECT_EQ(run.served()[1].deliveries, 1);
  EXPECT_TRUE(run.served()[1].cancelled);
}

}  // namespace
}  // namespace specdec::batch
