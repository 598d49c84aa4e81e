// check_invariants() notices what is out of order: each case spoils one thing behind the engine's
// back.
#include "stages/06_batched_verification/batch_engine.h"
#include "tests/unit/stages/06_batched_verification/batch_engine_fixture.h"

namespace specdec {
namespace {

// Three requests of which the first two run, the third prefills and a fourth waits.
struct Spoiled {
  Spoiled() : batch(setup()) {
    for (int i = 0; i < 2; i++) batch.add(greedy_request({i}, 30, 2));
    for (int i = 0; i < 2; i++) batch.add(greedy_request(some_prompt(30), 9, 2));
    for (int i = 0; i < 3; i++) batch.engine().step();
    batch.engine().check_invariants();
  }
  static BatchSetup setup() {
    BatchSetup setup;
    setup.options.max_batch = 3;
    setup.options.prefill_chunk = 4;
    setup.options.check_invariants = false;
    return setup;
  }

  RequestState& state(std::size_t i) {
    return const_cast<RequestState&>(*batch.engine().requests()[i]);
  }
  PagedKvCache& target_cache() { return dynamic_cast<PagedKvCache&>(*batch.target_cache); }
  PagedKvCache& draft_cache() { return dynamic_cast<PagedKvCache&>(*batch.draft_cache); }
  int length(std::size_t i) { return target_cache().length(state(i).sequence); }

  TestBatch batch;
};

struct Case {
  std::string name;
  std::function<void(Spoiled&)> spoil;
  std::string message;
};

std::vector<Case> cases() {
  return {
      {"a target that has forgotten a token",
       [](Spoiled& s) { s.target_cache().truncate(s.state(0).sequence, s.length(0) - 1); },
       "request 0 to have cached what its phase says; it is running with"},
      {"a target with a token too many",
       [](Spoiled& s) {
         s.target_cache().extend(std::vector<Extension>{{s.state(1).sequence, 1}});
       },
       "request 1 to have cached what its phase says; it is running with"},
      {"a prefill that has come to its end",
       [](Spoiled& s) {
         s.target_cache().extend(std::vector<Extension>{{s.state(2).sequence, 29 - s.length(2)}});
         const SequenceId draft = s.state(2).draft_sequence;
         s.draft_cache().extend(
             std::vector<Extension>{{draft, 29 - s.draft_cache().length(draft)}});
       },
       "it is prefilling with 29 of 30 tokens cached"},
      {"a draft that is ahead of the target",
       [](Spoiled& s) {
         s.draft_cache().extend(std::vector<Extension>{{s.state(0).draft_sequence, 5}});
       },
       "request 0 to have at most 6 tokens cached by its draft, not 11"},
      {"a page with an owner too many",
       [](Spoiled& s) { s.target_cache().hold(s.target_cache().pages(s.state(0).sequence)[0]); },
       "target page .* to have 1 owners, not 2"},
      {"a draft page with an owner too many",
       [](Spoiled& s) {
         s.draft_cache().hold(s.draft_cache().pages(s.state(0).draft_sequence)[0]);
       },
       "draft page .* to have 1 owners, not 2"},
      {"a cached page that the cache does not own",
       [](Spoiled& s) { s.target_cache().drop(s.target_cache().pages(s.state(2).sequence)[0]); },
       "target page .* to have 2 owners, not 1"},
      {"two writers of a page",
       [](Spoiled& s) {
         if (s.length(0) % 3 == 0) s.target_cache().truncate(s.state(0).sequence, s.length(0) - 1);
         s.state(0).context.resize(static_cast<std::size_t>(s.length(0)) + 1);
         s.state(0).phase = Phase::kRunning;
         s.target_cache().fork(s.state(0).sequence);
       },
       "which will be written, not to be shared|to be its prompt and its tokens"},
      {"a token that was not counted", [](Spoiled& s) { s.state(1).stats.run.emitted--; },
       "request 1 to have counted its .* tokens, not"},
      {"a context with a token too many", [](Spoiled& s) { s.state(1).context.push_back(0); },
       "the context of request 1 to be its prompt and its tokens"},
      {"another prompt", [](Spoiled& s) { s.state(2).context[1]++; },
       "the context of request 2 to be its prompt and its tokens"},
      {"a phase without a sequence", [](Spoiled& s) { s.state(3).phase = Phase::kRunning; },
       "request 3 to have a sequence unless it waits; it is running"},
      {"a sequence of one who waits", [](Spoiled& s) { s.state(0).phase = Phase::kWaiting; },
       "request 0 to have a sequence unless it waits; it is waiting"},
      {"a draft of one who waits", [](Spoiled& s) { s.state(3).draft_sequence = 0; },
       "request 3, which waits, to have no draft sequence"},
      {"an order that is not that of age",
       [](Spoiled& s) {
         const auto admitted = s.batch.engine().admitted();
         auto* list = const_cast<RequestState**>(admitted.data());
         std::swap(list[0], list[1]);
       },
       "both lists to be in order of age"},
      {"one who was overtaken",
       [](Spoiled& s) {
         auto* list = const_cast<RequestState**>(s.batch.engine().admitted().data());
         auto& waiting = const_cast<std::deque<RequestState*>&>(s.batch.engine().waiting());
         std::swap(list[2], waiting.front());
       },
       "no request to be overtaken"},
      {"one whom nobody knows",
       [](Spoiled& s) {
         const_cast<std::deque<RequestState*>&>(s.batch.engine().waiting()).clear();
       },
       "every request to be admitted or to wait"},
      {"a sequence that nobody has",
       [](Spoiled& s) {
         s.target_cache().extend(std::vector<Extension>{{s.target_cache().create(), 2}});
       },
       "sequences"},
  };
}

TEST(BatchInvariantsTest, WhatIsOutOfOrderIsNoticedAndNamed) {
  ::testing::FLAGS_gtest_death_test_style = "fast";
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    EXPECT_DEATH(
        {
          Spoiled spoiled;
          c.spoil(spoiled);
          spoiled.batch.engine().check_invariants();
        },
        c.message);
  }
}

TEST(BatchInvariantsTest, TheyAreCheckedInEveryStepWhereTheOptionsSaySo) {
  BatchSetup setup;
  setup.options.check_invariants = true;
  TestBatch batch(setup);
  batch.add(greedy_request({1}, 9));
  batch.engine().step();
  const_cast<RequestState&>(*batch.engine().requests()[0]).stats.run.emitted++;
  EXPECT_DEATH(batch.engine().step(), "request 0 to have counted its .* tokens, not");
}

}  // namespace
}  // namespace specdec
