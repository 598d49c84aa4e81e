#include "stages/programs/speculation/speedup.h"

#include "common/base/json_value.h"
#include "common/run_stats.h"
#include "common/speculation/paper_formulas.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

// Ten rounds of K = 3 whose drafts were all accepted, in the time that their parts take.
struct IdealRun {
  RunStats stats;
  StepTimes times{.target_pass = 4,
                  .draft_step = 1,
                  .verification = 5,
                  .mean_draft = 1,
                  .plain_token = 4,
                  .samples = 8};
  IdealRun() {
    stats.rounds = stats.drafted_rounds = stats.target_forwards = 10;
    stats.drafted = stats.counted = stats.tested = stats.accepted = 30;
    stats.rounds_by_drafted = {0, 0, 0, 10};
    stats.emitted = 40;
    stats.draft_seconds = 30;
    stats.catch_up_seconds = 3;
    stats.catch_up_drafted = 3;
    stats.verify_seconds = 50;
    stats.decode_seconds = 80;
  }
};

// Of the speedup, by_accounting is also that by the clock.
void expect_speedup(const IdealRun& run, double by_formula, double by_accounting) {
  const Speedup result = speedup(run.stats, run.times);
  EXPECT_DOUBLE_EQ(result.c, 0.25);
  EXPECT_DOUBLE_EQ(result.by_formula, by_formula);
  EXPECT_DOUBLE_EQ(result.by_accounting, by_accounting);
  EXPECT_DOUBLE_EQ(result.by_clock, by_accounting);
}

TEST(SpeedupTest, AnIdealRunIsAsFastAsPredicted) {
  const IdealRun run;
  EXPECT_DOUBLE_EQ(speedup(run.stats, run.times).v, 1.25);
  EXPECT_DOUBLE_EQ(expected_emitted(1, 3) / (3 * 0.25 + 1.25), 2);
  expect_speedup(run, 2, 2);
}

TEST(SpeedupTest, OverheadIsAccountedForButNotInTheFormula) {
  IdealRun run;
  run.stats.decode_seconds = 100;
  expect_speedup(run, 2, 1.6);
}

TEST(SpeedupTest, TheDraftsPrefillIsOverhead) {
  IdealRun run;
  run.stats.catch_up_seconds = 23;
  run.stats.draft_seconds = 50;
  run.stats.decode_seconds = 100;
  expect_speedup(run, 2, 1.6);
}

// Half of the drafts cost nothing: the accounting goes by what they cost together.
TEST(SpeedupTest, DraftersThatTakeTurns) {
  IdealRun run;
  run.times.mean_draft = 0.5;
  run.stats.draft_seconds = 15;
  run.stats.catch_up_seconds = 1.5;
  run.stats.decode_seconds = 65;
  expect_speedup(run, 2, 160.0 / 65);
}

// After each round a gate saw one pass more, and wanted no draft.
TEST(SpeedupTest, ARefusedDraftCostsAPassOfTheDraft) {
  IdealRun run;
  run.stats.refused = 10;
  run.stats.draft_seconds = 40;
  run.stats.decode_seconds = 90;
  expect_speedup(run, 160.0 / 90, 160.0 / 90);
}

TEST(SpeedupTest, PlainDecodingPaysForItsChoicesToo) {
  IdealRun run;
  run.times.choice = 1;
  run.times.plain_token = 5;
  expect_speedup(run, 2, 2.5);
}

// Five rounds drafted nothing, and emitted a token each.
TEST(SpeedupTest, RoundsWithoutDraftsArePlainSteps) {
  IdealRun run;
  run.stats.drafted_rounds = 5;
  run.stats.rounds_by_drafted = {5, 0, 0, 5};
  run.stats.drafted = run.stats.counted = run.stats.tested = run.stats.accepted = 15;
  run.stats.emitted = 25;
  run.stats.draft_seconds = 15;
  run.stats.verify_seconds = 5 * 5 + 5 * 4;
  run.stats.decode_seconds = 60;
  expect_speedup(run, 2.5 / (1 + 0.5), 100.0 / 60);
}

// Five rounds of 1 and five of 5: as many drafts as ten of 3, by passes over 2 and 6 rows.
TEST(SpeedupTest, EveryRoundHasAKOfItsOwn) {
  IdealRun run;
  run.stats.rounds_by_drafted = {0, 5, 0, 0, 0, 5};
  run.stats.tested = 28;  // two rounds of 5 accepted 3 and then none
  run.stats.accepted = 26;
  run.stats.emitted = 36;
  run.times.verification = (4.5 + 5.5) / 2;
  const double alpha = 26.0 / 28,
               emitted = 5 * expected_emitted(alpha, 1) + 5 * expected_emitted(alpha, 5);
  EXPECT_DOUBLE_EQ(speedup(run.stats, run.times).v, 1.25) << "the mean of two";
  expect_speedup(run, emitted / (30 * 0.25 + 10 * 1.25), 36 * 4.0 / 80);
}

TEST(SpeedupTest, PlainStepsAloneHaveNoCAndNoV) {
  IdealRun run;
  run.stats = {};
  run.stats.rounds = run.stats.target_forwards = run.stats.emitted = 10;
  run.stats.rounds_by_drafted = {10};
  run.stats.verify_seconds = 40;
  run.stats.decode_seconds = 50;
  const Speedup result = speedup(run.stats, run.times);
  EXPECT_TRUE(std::isnan(result.c) && std::isnan(result.v) && std::isnan(result.by_formula));
  EXPECT_DOUBLE_EQ(result.by_accounting, 0.8);
  EXPECT_DOUBLE_EQ(result.by_clock, 0.8);
}

TEST(SpeedupTest, WhatIsUnknownIsNull) {
  const IdealRun run;
  Json json;
  add_to_json(json, run.stats, speedup(run.stats, {}));
  for (const char* name : {"c", "v", "speedup_formula", "speedup_accounting", "speedup_clock"}) {
    EXPECT_TRUE(json.at(name).is_null()) << name;
  }
  EXPECT_EQ(json.at("tokens_per_target_forward"), 4);
  EXPECT_THAT(summary(run.stats, {}, 0), ::testing::HasSubstr("unknown by formula"));

  RunStats untested = run.stats;
  untested.tested = untested.accepted = 0;
  EXPECT_TRUE(std::isnan(speedup(untested, run.times).by_formula));
  EXPECT_DOUBLE_EQ(speedup(untested, run.times).by_clock, 2);
}

}  // namespace
}  // namespace specdec
