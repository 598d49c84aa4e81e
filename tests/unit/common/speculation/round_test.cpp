// What a round is, and what it counts.
#include "common/speculation/round.h"

#include "common/base/json_value.h"
#include "common/run_stats.h"
#include "common/speculation/count_round.h"
#include "stages/programs/show/report.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

Round round_of(int drafted, int accepted, RoundEnd end, int start = 10) {
  Round round;
  round.start = start;
  round.drafted = drafted;
  round.accepted = accepted;
  round.end = end;
  round.sum_acceptance_prob = accepted;
  return round;
}

TEST(RoundTest, Names) {
  EXPECT_EQ(round_end_name(RoundEnd::kAllAccepted), "all accepted");
  EXPECT_EQ(round_end_name(RoundEnd::kRejected), "rejected");
  EXPECT_EQ(round_end_name(RoundEnd::kStopped), "stopped");
}

// Start 10, K 4: positions 10 (pending) to 14 are fed to the target, 10 to 13 to the draft.
TEST(RoundTest, LengthsAndCounts) {
  struct Line {
    Round round;
    int tested, emitted, counted, target_length, draft_length;
  };
  for (const Line& line : {
           Line{round_of(4, 0, RoundEnd::kRejected), 1, 1, 4, 11, 11},
           Line{round_of(4, 1, RoundEnd::kRejected), 2, 2, 4, 12, 12},
           Line{round_of(4, 3, RoundEnd::kRejected), 4, 4, 4, 14, 14},
           // The bonus is no draft; the last draft was never fed to the draft.
           Line{round_of(4, 4, RoundEnd::kAllAccepted), 4, 5, 4, 15, 14},
           // A stop: neither correction nor bonus, and nothing behind it counts.
           Line{round_of(4, 1, RoundEnd::kStopped), 1, 1, 1, 12, 12},
           Line{round_of(4, 4, RoundEnd::kStopped), 4, 4, 4, 15, 14},
           Line{round_of(1, 0, RoundEnd::kRejected), 1, 1, 1, 11, 11},
           Line{round_of(1, 1, RoundEnd::kAllAccepted), 1, 2, 1, 12, 11},
           // A plain step: nothing of the draft was fed.
           Line{round_of(0, 0, RoundEnd::kAllAccepted), 0, 1, 0, 11, 10},
       }) {
    SCOPED_TRACE(fmt::format("K {}, {} accepted, {}", line.round.drafted, line.round.accepted,
                             round_end_name(line.round.end)));
    EXPECT_EQ(line.round.tested(), line.tested);
    EXPECT_EQ(line.round.emitted(), line.emitted);
    EXPECT_EQ(line.round.counted(), line.counted);
    EXPECT_EQ(line.round.target_length(), line.target_length);
    EXPECT_EQ(line.round.draft_length(), line.draft_length);
  }
}

// By definition: the largest k in 0..K for which the target's k + 1 tokens and the draft's k fit.
TEST(RoundTest, SpecLengthIsTheLargestThatFits) {
  for (int K = 0; K <= 6; K++) {
    for (int start = 0; start <= 12; start++) {
      for (int limit = start + 1; limit <= 14; limit++) {  // the pending token fits
        for (int draft_limit = 0; draft_limit <= 14; draft_limit++) {
          int largest = 0;
          for (int k = 1; k <= K; k++) {
            if (start + k + 1 <= limit && start + k <= draft_limit) largest = k;
          }
          ASSERT_EQ(round_spec_length(K, start, limit, draft_limit), largest)
              << K << " " << start << " " << limit << " " << draft_limit;
        }
      }
    }
  }
  const int no_limit = std::numeric_limits<int>::max();
  EXPECT_EQ(round_spec_length(32, 100, no_limit, no_limit), 32);
}

// ---- counters

RunStats count(std::initializer_list<Round> rounds) {
  RunStats stats;
  for (const Round& round : rounds) count_round(stats, round);
  return stats;
}

TEST(CountRoundTest, FullAcceptanceDoesNotCountTheBonus) {
  const RunStats stats = count({round_of(3, 3, RoundEnd::kAllAccepted)});
  EXPECT_EQ(stats.counted, 3);
  EXPECT_EQ(stats.tested, 3);
  EXPECT_EQ(stats.accepted, 3) << "the bonus is no draft";
  EXPECT_EQ(stats.emitted, 4);
  const Json json = to_json(stats);
  EXPECT_EQ(json.at("alpha"), 1.0);
  EXPECT_EQ(json.at("acceptance_rate"), 1.0);
  EXPECT_EQ(json.at("mean_round_acceptance"), 1.0);
  EXPECT_EQ(json.at("accepted_per_position"), Json({1.0, 1.0, 1.0}));
}

TEST(CountRoundTest, ARejectionTestsOneMoreThanItAccepts) {
  const RunStats stats = count({round_of(4, 1, RoundEnd::kRejected)});
  EXPECT_EQ(stats.counted, 4);
  EXPECT_EQ(stats.tested, 2) << "what follows a rejection was never tested";
  EXPECT_EQ(stats.accepted, 1);
  EXPECT_EQ(stats.emitted, 2);
  EXPECT_EQ(to_json(stats).at("alpha"), 0.5);
  EXPECT_EQ(to_json(stats).at("acceptance_rate"), 0.25);
  EXPECT_EQ(stats.accepted_at, (std::vector<std::int64_t>{1, 0, 0, 0}));
  EXPECT_EQ(stats.drafted_at, (std::vector<std::int64_t>{1, 1, 1, 1}));
}

TEST(CountRoundTest, NothingBehindAStopCounts) {
  const RunStats stats = count({round_of(5, 2, RoundEnd::kStopped)});
  EXPECT_EQ(stats.counted, 2) << "drafts behind a stop count nowhere";
  EXPECT_EQ(stats.tested, 2);
  EXPECT_EQ(stats.accepted, 2);
  EXPECT_EQ(stats.emitted, 2) << "neither correction nor bonus";
  EXPECT_EQ(stats.accepted_at, (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(stats.drafted_at, (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(to_json(stats).at("alpha"), 1.0);
  EXPECT_EQ(to_json(stats).at("acceptance_rate"), 1.0);
}

TEST(CountRoundTest, APlainStepIsARoundWithoutDrafts) {
  const RunStats stats = count({round_of(0, 0, RoundEnd::kAllAccepted)});
  EXPECT_EQ(stats.rounds, 1);
  EXPECT_EQ(stats.target_forwards, 1);
  EXPECT_EQ(stats.drafted_rounds, 0);
  EXPECT_EQ(stats.emitted, 1);
  EXPECT_EQ(stats.counted, 0);
  EXPECT_TRUE(stats.drafted_at.empty());
  EXPECT_TRUE(to_json(stats).at("alpha").is_null());
  EXPECT_TRUE(to_json(stats).at("mean_round_acceptance").is_null());
}

// Several rounds of different K, by hand.
TEST(CountRoundTest, SumsAndMeans) {
  const RunStats stats =
      count({round_of(4, 4, RoundEnd::kAllAccepted), round_of(4, 1, RoundEnd::kRejected),
             round_of(0, 0, RoundEnd::kAllAccepted), round_of(2, 0, RoundEnd::kRejected),
             round_of(4, 2, RoundEnd::kStopped)});
  EXPECT_EQ(stats.rounds, 5);
  EXPECT_EQ(stats.target_forwards, 5);
  EXPECT_EQ(stats.drafted_rounds, 4);
  EXPECT_EQ(stats.counted, 4 + 4 + 0 + 2 + 2);
  EXPECT_EQ(stats.tested, 4 + 2 + 0 + 1 + 2);
  EXPECT_EQ(stats.accepted, 4 + 1 + 0 + 0 + 2);
  EXPECT_EQ(stats.emitted, 5 + 2 + 1 + 1 + 2);
  EXPECT_EQ(stats.accepted_at, (std::vector<std::int64_t>{3, 2, 1, 1}));
  EXPECT_EQ(stats.drafted_at, (std::vector<std::int64_t>{4, 4, 2, 2}));
  EXPECT_EQ(stats.rounds_by_drafted, (std::vector<std::int64_t>{1, 0, 1, 0, 3}));
  const Json json = to_json(stats);
  EXPECT_DOUBLE_EQ(json.at("alpha"), 7.0 / 9);
  EXPECT_DOUBLE_EQ(json.at("alpha_by_probability"), 7.0 / 9);
  EXPECT_DOUBLE_EQ(json.at("acceptance_rate"), 7.0 / 12);
  EXPECT_EQ(json.at("rounds_by_drafted"), Json({1, 0, 1, 0, 3}));
  EXPECT_DOUBLE_EQ(json.at("mean_spec_length"), 14.0 / 5);
  EXPECT_DOUBLE_EQ(json.at("mean_round_acceptance"), (1 + 0.25 + 0 + 1) / 4);
  EXPECT_EQ(json.at("accepted_per_position"), Json({0.75, 0.5, 0.5, 0.5}));
}

}  // namespace
}  // namespace specdec
