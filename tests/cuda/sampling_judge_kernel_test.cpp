#include <algorithm>
#include <utility>

#include "tests/cuda/sampling_judge_test.h"

#ifdef SPECDEC_EMULATED
#include "kernels/emulation/cuda_on_cpu.h"
#endif

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

class SamplingJudgeKernel : public KernelTest {};

struct Judged {
  std::vector<Verdict> verdicts;
  std::vector<double> acceptance_probs;
};

// The drafts' distributions in device memory, computed there from draft_logits. So if both models
// have the same logits, both distributions have the same bits.
std::vector<OnDevice<double>> device_draft_probs(const TestRound& round) {
  const int V = round.vocab_size(), K = round.drafted();
  std::vector<OnDevice<double>> probs;
  const auto context = round.context();
  std::vector<Choice> choices;
  for (int i = 0; i < K; ++i) {
    probs.emplace_back(std::vector<double>(index_of(V), double{kNan}));
    choices.push_back({.sampling = round.sampling_of(i, context), .probs = probs.back().data()});
  }
  std::vector<std::int32_t> tokens(index_of(K));
  device()
      .make_sampler({.vocab_size = V, .rows = K, .history = K * static_cast<int>(context.size())})
      ->choose(DeviceMatrix(round.draft_logits.view()).view(), choices, tokens);
  return probs;
}

// All rounds of one batch, judged together or one by one.
class DeviceRounds {
 public:
  explicit DeviceRounds(const std::vector<TestRound>& rounds) : V_(rounds[0].vocab_size()) {
    for (const TestRound& round : rounds) {
      probs_.push_back(device_draft_probs(round));
      add(round);
    }
  }
  // With distributions that do not come from logits.
  DeviceRounds(const TestRound& round, const std::vector<std::vector<double>>& draft_probs)
      : V_(round.vocab_size()), probs_(1) {
    for (const auto& probs : draft_probs) probs_[0].emplace_back(probs);
    add(round);
  }

  Judged judge(std::size_t first, std::size_t count, bool statistics = true) const {
    std::vector<DraftedRound> batch;
    int rows = 0, history = 0;
    std::size_t drafts = 0;
    for (std::size_t r = first; r < first + count; ++r) {
      DraftedRound round = rounds_[r];
      round.logits = logits_[r].view();
      round.drafts = drafts_[r];
      round.draft_probs = pointers_[r];
      round.sampling.history = histories_[r];
      batch.push_back(round);
      rows += round.logits.rows;
      drafts += round.drafts.size();
      history += static_cast<int>(histories_[r].size());
    }
    const auto sampler = device().make_sampler(
        {.vocab_size = V_, .rows = rows, .rounds = static_cast<int>(count), .history = history});
    Judged judged{std::vector<Verdict>(count, {-2, -2}),
                  std::vector<double>(statistics ? drafts : 0, kNan)};
    sampler->judge(batch, judged.verdicts, judged.acceptance_probs);
    return judged;
  }
  Judged judge_all(bool statistics = true) const { return judge(0, rounds_.size(), statistics); }

 private:
  void add(const TestRound& round) {
    std::vector<const double*> pointers;
    for (std::size_t i = 0; i < round.drafts.size(); ++i) {
      const bool certain = round.host_draft_probs[i].empty();
      pointers.push_back(certain ? nullptr : probs_.back()[i].data());
    }
    pointers_.push_back(std::move(pointers));
    logits_.emplace_back(round.logits.view(), 2);
    drafts_.push_back(round.drafts);
    histories_.push_back(round.history);
    rounds_.push_back({.sampling = round.sampling,
                       .rule = *round.rule->on_device,
                       .lenience = round.lenience,
                       .seed = round.seed,
                       .position = round.position});
  }

  int V_;
  std::vector<std::vector<OnDevice<double>>> probs_;
  std::vector<std::vector<const double*>> pointers_;
  std::vector<DeviceMatrix> logits_;
  std::vector<std::vector<std::int32_t>> drafts_, histories_;
  std::vector<DraftedRound> rounds_;
};

// The number of rounds that end differently from the host's. In the others, acceptance
// probabilities equal the host's, and positions that were not tested have none.
int count_differences(const std::vector<TestRound>& rounds, const Judged& judged) {
  int differences = 0;
  std::size_t draft = 0;
  for (std::size_t r = 0; r < rounds.size(); ++r) {
    std::vector<double> acceptance_probs;
    const Verdict want = host_verdict(rounds[r], acceptance_probs), got = judged.verdicts[r];
    const bool same = want.accepted == got.accepted && want.token == got.token;
    differences += !same;
    for (std::size_t i = 0; same && i < acceptance_probs.size(); ++i) {
      EXPECT_EQ(judged.acceptance_probs[draft + i], acceptance_probs[i]);
    }
    draft += rounds[r].drafts.size();
  }
  return differences;
}

std::vector<TestRound> random_rounds(TestNumbers& numbers, const NamedRule& rule, int V,
                                     int count) {
  std::vector<TestRound> rounds;
  for (int i = 0; i < count; ++i) rounds.push_back(random_round(numbers, rule, V));
  return rounds;
}

class EveryRule : public SamplingJudgeKernel,
                  public ::testing::WithParamInterface<const NamedRule*> {
 protected:
  void SetUp() override { SamplingJudgeKernel::SetUp(); }
  const NamedRule& rule() const { return *GetParam(); }
  std::uint32_t seed() const {  // the rule's index
    const auto rules = device_rules();
    return static_cast<std::uint32_t>(std::ranges::find(rules, GetParam()) - rules.begin());
  }
};

TEST_P(EveryRule, DecidesAsTheHostDoes) {
  TestNumbers numbers(seed() + 1);
  for (const int V : {1, 2, 3, 8, 20, 50}) {
    for (int repeat = 0; repeat < 6; ++repeat) {
      const auto rounds = random_rounds(numbers, rule(), V, 50);
      EXPECT_EQ(count_differences(rounds, DeviceRounds(rounds).judge_all()), 0) << V;
    }
  }
}

TEST_P(EveryRule, DecidesAsTheHostDoesWithLargeVocabularies) {
  TestNumbers numbers(seed() + 100);
  for (const int V : {600, 2000}) {
    const auto rounds = random_rounds(numbers, rule(), V, 8);
    EXPECT_EQ(count_differences(rounds, DeviceRounds(rounds).judge_all()), 0) << V;
  }
}

TEST_P(EveryRule, ARoundDependsOnItselfAlone) {
  TestNumbers numbers(seed() + 200);
  const auto rounds = random_rounds(numbers, rule(), 40, 12);
  const DeviceRounds on_device(rounds);
  const Judged together = on_device.judge_all();
  std::vector<double> acceptance_probs;
  for (std::size_t r = 0; r < rounds.size(); ++r) {
    const Judged alone = on_device.judge(r, 1);
    EXPECT_EQ(alone.verdicts[0].accepted, together.verdicts[r].accepted);
    EXPECT_EQ(alone.verdicts[0].token, together.verdicts[r].token);
    acceptance_probs.insert(acceptance_probs.end(), alone.acceptance_probs.begin(),
                            alone.acceptance_probs.end());
  }
  EXPECT_TRUE(same_bits(acceptance_probs, together.acceptance_probs));
}

// Without statistics, the verdicts are the same, with one launch fewer.
TEST_P(EveryRule, OverlapsAreComputedWhereTheyAreAsked) {
  TestNumbers numbers(seed() + 600);
  const auto rounds = random_rounds(numbers, rule(), 1500, 4);  // of two blocks
  const DeviceRounds on_device(rounds);
  const Judged with = on_device.judge_all(true), without = on_device.judge_all(false);
  for (std::size_t r = 0; r < rounds.size(); ++r) {
    EXPECT_EQ(with.verdicts[r].accepted, without.verdicts[r].accepted);
    EXPECT_EQ(with.verdicts[r].token, without.verdicts[r].token);
  }
#ifdef SPECDEC_EMULATED
  const auto launches = [&](bool statistics) {
    const auto before = emulation::traffic().launches;
    on_device.judge_all(statistics);
    return emulation::traffic().launches - before;
  };
  EXPECT_EQ(launches(true), launches(false) + 1);
#endif
}

TEST_P(EveryRule, ABrokenRowCountsWhenItIsReached) {
  TestNumbers numbers(seed() + 300);
  auto rounds = random_rounds(numbers, rule(), 20, 60);
  int broken = 0;
  for (TestRound& round : rounds) {
    float* row = round.logits.row(numbers.below(round.logits.rows()));
    if (numbers.below(2) == 0)
      std::fill(row, row + 20, -kInfinity);
    else
      row[numbers.below(20)] = kNan;
    std::vector<double> acceptance_probs;
    broken += host_verdict(round, acceptance_probs).token == -1;
  }
  EXPECT_GT(broken, 15);
  EXPECT_LT(broken, 60);
  EXPECT_EQ(count_differences(rounds, DeviceRounds(rounds).judge_all()), 0);
}

// The target has tokens 0 to 3, the draft 2 to 5, each uniform: on 2 and 3 they agree.
TEST_P(EveryRule, DecidesAsTheHostDoesWhereTheModelsAgreeInPart) {
  std::vector<TestRound> rounds;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    TestRound round{.rule = &rule(),
                    .lenience = rule().rule == lenient ? 0.5 : 1,
                    .seed = seed,
                    .position = 2,
                    .logits = TestRows(2, 6),
                    .draft_logits = TestRows(1, 6),
                    .sampling = row_sampling({.temperature = 1}, {}),
                    .drafts = {static_cast<std::int32_t>(2 + seed % 4)}};
    for (int i = 0; i < 6; ++i) {
      round.logits.row(0)[i] = round.logits.row(1)[i] = i < 4 ? 1 : -kInfinity;
      round.draft_logits.row(0)[i] = i < 2 ? -kInfinity : -1;
    }
    round.host_draft_probs = {host_probs(round.draft_logits.view(), 0, round.sampling, 6)};
    rounds.push_back(std::move(round));
  }
  EXPECT_EQ(count_differences(rounds, DeviceRounds(rounds).judge_all()), 0);
}

TEST_P(EveryRule, AnotherSeedOrPositionIsAnotherVerdict) {
  if (rule().rule == lenient_argmax) return;  // draws nothing
  TestNumbers numbers(seed() + 500);
  const auto rounds = random_rounds(numbers, rule(), 30, 100);
  const auto differences = [&](const auto& change) {
    auto changed = rounds;
    for (TestRound& round : changed) change(round);
    return count_differences(rounds, DeviceRounds(changed).judge_all());
  };
  EXPECT_EQ(differences([](TestRound&) {}), 0);
  EXPECT_GT(differences([](TestRound& round) { round.seed ^= 1; }), 30);
  EXPECT_GT(differences([](TestRound& round) { round.position++; }), 30);
}

INSTANTIATE_TEST_SUITE_P(Rules, EveryRule, ::testing::ValuesIn(device_rules()),
                         [](const auto& rule) {
                           std::string name(rule.param->name);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// A round with one draft. The target gives token 0 probability zero, and 1/2 to each other token.
TestRound halves(std::uint64_t seed, TokenId draft, std::vector<double> draft_probs) {
  TestRound round{.rule = &find_acceptance_rule("rejection"),
                  .seed = seed,
                  .position = 7,
                  .logits = TestRows(2, 3),
                  .sampling = row_sampling({.temperature = 1}, {}),
                  .drafts = {draft},
                  .host_draft_probs = {std::move(draft_probs)}};
  for (int i = 0; i < 6; ++i) round.logits.row(i / 3)[i % 3] = i % 3 == 0 ? -kInfinity : 1;
  return round;
}

// The device's verdict, which is also the host's.
Verdict verdict_of(const TestRound& round) {
  const Judged judged = DeviceRounds(round, round.host_draft_probs).judge_all();
  EXPECT_EQ(count_differences({round}, judged), 0);
  return judged.verdicts[0];
}

// The uniform must be below p/q, not equal to it.
TEST_F(SamplingJudgeKernel, AUniformEqualToTheRatioRejects) {
  for (int seed = 0, cases = 0; cases < 20; ++seed) {
    const double u = uniform(index_of(seed), 7, Purpose::kAccept), q = 0.5 / u;
    if (u < 0.5 || 0.5 / q != u) continue;
    const double less = q * (1 - 1e-15);
    EXPECT_EQ(verdict_of(halves(index_of(seed), 1, {0, q, 1 - q})).accepted, 0);
    EXPECT_EQ(verdict_of(halves(index_of(seed), 1, {0, less, 1 - less})).accepted, 1);
    cases++;
  }
}

// The residual of token 1 is u/2, of a total of 1/2, so u is exactly where token 2 begins.
TEST_F(SamplingJudgeKernel, AUniformOnTheBoundaryDrawsTheNextToken) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const double owed = uniform(seed, 7, Purpose::kResample) / 2, more = owed + 0x1p-53;
    EXPECT_EQ(verdict_of(halves(seed, 0, {0.5, 0.5 - owed, owed})).token, 2);
    EXPECT_EQ(verdict_of(halves(seed, 0, {0.5, 0.5 - more, more})).token, 1);
  }
}

// The draft is above the target for every token, as if rounding had left no residual.
TEST_F(SamplingJudgeKernel, AnEmptyResidualFallsBackToTheTarget) {
  int rejected = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    for (const NamedRule* rule : {&find_acceptance_rule("rejection"), &lenient_rule(1)}) {
      TestRound round{.rule = rule,
                      .seed = seed,
                      .position = 3,
                      .logits = TestRows(2, 4),
                      .sampling = row_sampling({.temperature = 1}, {}),
                      .drafts = {static_cast<std::int32_t>(seed % 4)},
                      .host_draft_probs = {{0.5, 0.5, 0.5, 0.5}}};
      for (int i = 0; i < 8; ++i) round.logits.row(i / 4)[i % 4] = 2;
      const Judged judged = DeviceRounds(round, round.host_draft_probs).judge_all();
      EXPECT_EQ(count_differences({round}, judged), 0);
      rejected += judged.verdicts[0].accepted == 0;
    }
  }
  EXPECT_GT(rejected, 20);
}

// A row's history includes the drafts before it, so a drafted token is penalised from then on.
TEST_F(SamplingJudgeKernel, DraftsArePenalisedFromTheNextRowOn) {
  TestRound round{.rule = &lenient_rule(0),
                  .lenience = 0.9,
                  .position = 1,
                  .logits = TestRows(3, 4),
                  .history = {3},
                  .sampling = row_sampling({.temperature = 1, .repetition_penalty = 2}, {}),
                  .drafts = {0, 1},
                  .host_draft_probs = {{}, {}}};
  // Without its history, token 3 would win every row. With it, 0, 1 and 2 win the three rows in
  // turn.
  for (int i = 0; i < 12; ++i)
    round.logits.row(i / 4)[i % 4] = 8.0f - 0.5f * static_cast<float>(i % 4);
  for (int i = 0; i < 3; ++i) round.logits.row(i)[3] = 9;
  const Judged judged = DeviceRounds(round, {}).judge_all();
  EXPECT_EQ(judged.verdicts[0].accepted, 2);
  EXPECT_EQ(judged.verdicts[0].token, 2);
}

TEST_F(SamplingJudgeKernel, NoRoundsHaveNoVerdicts) {
  device().make_sampler({.vocab_size = 5})->judge({}, {}, {});
}

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
