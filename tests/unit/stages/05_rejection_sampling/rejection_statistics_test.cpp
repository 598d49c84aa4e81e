// Stage 5 with real models and real dice, by chi-square against exact probabilities, and samplers
// with a known bias that the same statistic must reject. Seeds are fixed: a test that passes passes
// always.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "stages/05_rejection_sampling/sampling_drafter.h"
#include "stages/programs/sampling/speculation_options.h"
#include "tests/every_path.h"
#include "tests/table_model.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

using Two = std::pair<TokenId, TokenId>;  // the first two tokens of a text

// Pearson's statistic, with the number that it exceeds by chance with probability 5e-7
// (Wilson-Hilferty, z = 4.9; below 1e-6 for all degrees of freedom that occur here).
struct ChiSquare {
  double statistic = 0;
  int degrees = 0;
  int impossible = 0;  // outcomes of probability 0

  double bound() const {
    const double spread = 2.0 / (9.0 * degrees);
    return degrees * std::pow(1 - spread + 4.9 * std::sqrt(spread), 3);
  }
  bool accepts() const { return statistic <= bound() && impossible == 0; }
  bool rejects() const { return statistic > bound(); }  // without the help of impossible outcomes
};

// Outcomes that are expected fewer than 10 times are pooled.
template <typename Outcome>
ChiSquare chi_square(const std::map<Outcome, int>& counts, const std::map<Outcome, double>& law) {
  ChiSquare result{0, -1, 0};
  double n = 0;
  for (const auto& [outcome, count] : counts) {
    n += count;
    if (!law.contains(outcome)) result.impossible += count;
  }
  double rare_expected = 0, rare_count = 0;
  const auto add = [&](double count, double expected) {
    result.statistic += (count - expected) * (count - expected) / expected;
    result.degrees++;
  };
  for (const auto& [outcome, probability] : law) {
    const auto found = counts.find(outcome);
    const double count = found == counts.end() ? 0 : found->second, expected = n * probability;
    if (expected >= 10) {
      add(count, expected);
    } else {
      rare_count += count;
      rare_expected += expected;
    }
  }
  if (rare_expected >= 10) add(rare_count, rare_expected);
  EXPECT_GE(result.degrees, 1);
  return result;
}

// ---- races ----

// 200,000 races of four tokens that can win: 3 degrees of freedom, bound 34. Shares that are off by
// 1.3% of themselves (root mean square; 0.013^2 x 200,000 = 34) are noticed about every second
// time, by 2.5% practically always.
constexpr int kRaces = 200'000;
const Probs kRaceProbs = {0.4, 0.3, 0.2, 0.1, 0};

template <typename Race>
ChiSquare chi_square_of_races(Race&& race) {
  std::map<TokenId, int> counts;
  std::map<TokenId, double> law;
  for (std::uint64_t seed = 0; seed < kRaces; seed++) counts[race(seed)]++;
  for (TokenId i = 0; i < 4; i++) law[i] = kRaceProbs[static_cast<std::size_t>(i)];
  return chi_square(counts, law);
}

// The winner where token i arrives at time(u_i, probs[i]).
TokenId first(std::uint64_t seed, const std::function<double(double, double)>& time) {
  std::vector<double> times;
  for (TokenId i = 0; i < 4; i++) {
    times.push_back(
        time(uniform(seed, 3, Purpose::kRace, i), kRaceProbs[static_cast<std::size_t>(i)]));
  }
  return static_cast<TokenId>(std::ranges::min_element(times) - times.begin());
}

TEST(RaceStatistics, AreWonAsOftenAsTheProbabilitiesSay) {
  const ChiSquare races =
      chi_square_of_races([](std::uint64_t seed) { return Dice(seed).race(kRaceProbs, 3); });
  EXPECT_EQ(races.degrees, 3);
  EXPECT_TRUE(races.accepts()) << races.statistic;
}

TEST(RaceStatistics, OtherTimesAreRejected) {
  const auto times = [](auto&& time) {
    return chi_square_of_races([&](std::uint64_t seed) { return first(seed, time); });
  };
  EXPECT_TRUE(times([](double u, double p) { return -std::log(u) / p; }).accepts());
  EXPECT_TRUE(times([](double u, double p) { return -std::log(u) * p; }).rejects());
  EXPECT_TRUE(times([](double u, double p) { return std::log(u) * p; }).rejects());
  EXPECT_TRUE(times([](double u, double p) { return u / p; }).rejects());
}

// Shared noise is what couples two models: equal rows always agree. With noise of their own they
// agree as often as two draws do.
TEST(RaceStatistics, SharedNoiseCouples) {
  const Probs other = {0.35, 0.35, 0.15, 0.15, 0};
  int equal = 0, close = 0, independent = 0;
  constexpr int kSeeds = 20'000;
  for (std::uint64_t seed = 0; seed < kSeeds; seed++) {
    Dice dice(seed);
    const TokenId own = dice.race(kRaceProbs, 3);
    equal += dice.race(kRaceProbs, 3) == own;
    close += dice.race(other, 3) == own;
    independent += dice.race(kRaceProbs, 4) == own;
  }
  EXPECT_EQ(equal, kSeeds);
  EXPECT_NEAR(independent, 0.3 * kSeeds, 0.017 * kSeeds) << "5 sigma";
  // Paulus et al.: 1 / sum_j max(p_j / p_i, q_j / q_i), over the i that win both.
  double expected = 0;
  for (std::size_t i = 0; i < 4; i++) {
    double sum = 0;
    for (std::size_t j = 0; j < 4; j++) {
      sum += std::max(kRaceProbs[j] / kRaceProbs[i], other[j] / other[i]);
    }
    expected += 1 / sum;
  }
  EXPECT_NEAR(close, expected * kSeeds, 0.016 * kSeeds) << "5 sigma";
}

// ---- how often the coupled rule accepts ----

// beta, the probability with which rejection() accepts.
double overlap(const Probs& p, const Probs& q) {
  double total = 0;
  for (std::size_t i = 0; i < p.size(); i++) total += std::min(p[i], q[i]);
  return total;
}

// The probability that the winners of two races with shared noise are the same (sitting 5.8).
double races_agree(const Probs& p, const Probs& q) {
  double total = 0;
  for (std::size_t i = 0; i < p.size(); i++) {
    if (p[i] == 0 || q[i] == 0) continue;  // never wins both
    double sum = 0;
    for (std::size_t j = 0; j < p.size(); j++) sum += std::max(p[j] / p[i], q[j] / q[i]);
    total += 1 / sum;
  }
  return total;
}

// What Daliri, Musco and Suresh guarantee.
double guaranteed(const Probs& p, const Probs& q) { return overlap(p, q) / (2 - overlap(p, q)); }

// Pairs of random rows: some unrelated, some close to each other, some with zeros.
std::vector<std::pair<Probs, Probs>> random_pairs(int count) {
  std::mt19937 random(5);
  std::vector<std::pair<Probs, Probs>> pairs;
  for (int i = 0; i < count; i++) {
    const int vocab_size = 2 + i % 7;
    const double zeros = i % 3 == 0 ? 0.35 : 0, apart = i % 2 == 0 ? 1 : 0.2;
    const Probs p = normalised(random_weights(vocab_size, zeros, random));
    Probs q = normalised(random_weights(vocab_size, zeros, random));
    for (std::size_t t = 0; t < q.size(); t++) q[t] = apart * q[t] + (1 - apart) * p[t];
    pairs.emplace_back(p, normalised(q));
  }
  return pairs;
}

constexpr int kDrafts = 20'000;  // judged for each pair of rows

// By how many standard deviations the number of accepted drafts of kDrafts positions differs from
// what `probability` predicts. If the rule accepts with this probability, or with a higher one, the
// result is below -5 with a probability below 3e-7.
double deviations(const NamedRule& rule, const Probs& p, const Probs& q, double probability) {
  Dice dice(11);
  Probs scratch(p.size());
  int accepted = 0;
  for (int position = 0; position < kDrafts; position++) {
    const TokenId draft =
        rule.races ? dice.race(q, position) : dice.token(q, position, Purpose::kDraft);
    accepted += rule.rule({position, draft, p, q}, dice, scratch).accepted ? 1 : 0;
  }
  const double sigma = std::sqrt(kDrafts * probability * (1 - probability));
  return (accepted - kDrafts * probability) / std::max(sigma, 1.0);
}

// As mathematics: the formula keeps both bounds, and one pair of rows reaches the lower one.
TEST(CoupledBound, TheFormulaIsAtLeastTheGuaranteeAndAtMostTheOverlap) {
  constexpr double kRounding = 1e-12;
  for (const auto& [p, q] : random_pairs(5'000)) {
    EXPECT_GE(races_agree(p, q), guaranteed(p, q) - kRounding);
    EXPECT_LE(races_agree(p, q), overlap(p, q) + kRounding);
  }
  const Probs p = {0.5, 0.5, 0}, q = {0, 0.5, 0.5};
  EXPECT_NEAR(races_agree(p, q), 1 / 3.0, kRounding);
  EXPECT_NEAR(guaranteed(p, q), 1 / 3.0, kRounding) << "no larger bound holds for all rows";
}

// As a program: with real dice, the rule accepts as often as the formula says.
TEST(CoupledBound, TheRuleAcceptsAtLeastThatOften) {
  const NamedRule& coupled = find_acceptance_rule("coupled");
  for (const auto& [p, q] : random_pairs(42)) {
    EXPECT_LT(std::abs(deviations(coupled, p, q, races_agree(p, q))), 5);
    EXPECT_GT(deviations(coupled, p, q, guaranteed(p, q)), -5);
  }
}

// The control: a rule whose two draws are independent falls below the guarantee, and the same
// statistic notices.
TEST(CoupledBound, IndependentDrawsFallBelowIt) {
  const NamedRule& independent = find_acceptance_rule("sample-and-match");
  int below = 0, noticed = 0;
  for (const auto& [p, q] : random_pairs(42)) {
    double agree = 0;
    for (std::size_t i = 0; i < p.size(); i++) agree += p[i] * q[i];
    below += agree < guaranteed(p, q) ? 1 : 0;
    noticed += deviations(independent, p, q, guaranteed(p, q)) < -5 ? 1 : 0;
  }
  EXPECT_GE(below, 30);
  EXPECT_GE(noticed, below - 5) << "some are too close to the guarantee";
  EXPECT_LE(noticed, below);
}

// ---- the embedded pair ----

// What both models say after the prompt, and after the prompt and one more token.
struct Pair {
  Probs target, draft;
};

// The embedded pair's distributions after a prompt, computed once.
class Distributions {
 public:
  explicit Distributions(const SamplingOptions& options) : options_(options) {
    for (Engine* engine : {&target_, &draft_}) {
      const SequenceId sequence = engine->llama->create();
      engine->forward(sequence, std::span(prompt()).first(prompt().size() - 1), 0);
    }
    first_ = after({});
  }

  // Of a held-out story: 19 tokens, after which the models differ.
  static const Text& prompt() {
    static const Text ids = {3840, 2451, 296,  264,  2606, 318,  2033, 308,  264, 1132,
                             1028, 13,   2033, 3413, 316,  3409, 264,  1028, 346};
    return ids;
  }
  int position() const { return static_cast<int>(prompt().size()); }  // of the first token
  const Pair& first() const { return first_; }
  const Pair& second(TokenId token) {
    const auto found = second_.find(token);
    return found != second_.end() ? found->second
                                  : second_.emplace(token, after({token})).first->second;
  }

  std::map<Two, double> law() {
    std::map<Two, double> law;
    for (TokenId i = 0; i < std::ssize(first_.target); i++) {
      const double p = first_.target[static_cast<std::size_t>(i)];
      if (p == 0) continue;
      const Probs& next = second(i).target;
      for (TokenId j = 0; j < std::ssize(next); j++) {
        const double both = p * next[static_cast<std::size_t>(j)];
        if (both > 0) law[{i, j}] = both;
      }
    }
    return law;
  }

 private:
  Pair after(const Text& text) { return {probs(target_, text), probs(draft_, text)}; }

  Probs probs(Engine& engine, const Text& text) {
    Text context = prompt();
    context.insert(context.end(), text.begin(), text.end());
    const SequenceId fork = engine.llama->fork(0);
    const HostRows rows = engine.forward(fork, uncached(*engine.llama, fork, context), 1);
    engine.llama->release(fork);
    Probs probs(rows[0].size());
    SamplingScratch scratch(static_cast<int>(probs.size()));
    probabilities(rows[0], context, options_, scratch, probs);
    return probs;
  }

  SamplingOptions options_;
  Engine target_{"target", make_cpu_backend(2), 16}, draft_{"draft", make_cpu_backend(2), 16};
  Pair first_;
  std::map<TokenId, Pair> second_;
};

// What a sampler has at hand when it judges a draft.
struct Judge {
  Dice& dice;
  std::uint64_t seed;
  const Pair& raw;  // the distributions without top-p, for those who mix them up
  std::span<double> scratch;
};
using Rule = std::function<Decision(const Proposal& draft, const Judge& judge)>;

Rule right(AcceptanceRule rule) {
  return [rule](const Proposal& draft, const Judge& judge) {
    return rule(draft, judge.dice, judge.scratch);
  };
}

// The first two tokens from rounds with one draft each, a seed a text. races: as coupled draws.
std::map<Two, int> sample_texts(Distributions& models, Distributions& raw, int count,
                                const Rule& rule, bool races = false) {
  std::map<Two, int> counts;
  Probs scratch(models.first().target.size());
  const int n = models.position();
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(count); seed++) {
    Dice dice(seed);
    const auto draw = [&](const Probs& probs, int position, Purpose purpose) {
      return races ? dice.race(probs, position) : dice.token(probs, position, purpose);
    };
    const auto round = [&](const Pair& pair, const Pair& raw_pair, int position) {
      const TokenId draft = draw(pair.draft, position, Purpose::kDraft);
      return rule({position, draft, pair.target, pair.draft}, {dice, seed, raw_pair, scratch});
    };
    const Decision first = round(models.first(), raw.first(), n);
    const Pair& pair = models.second(first.token);
    counts[{first.token, first.accepted ? draw(pair.target, n + 1, Purpose::kTarget)
                                        : round(pair, raw.second(first.token), n + 1).token}]++;
  }
  return counts;
}

// 34 degrees of freedom, bound 91. Probabilities that are off by 3.8% of themselves (root mean
// square; 0.038^2 x 40,000 = 58) are noticed about every second time, by 6% practically always; in
// the 3,000 whole runs (29 degrees, bound 83), 13% and 20%.
constexpr int kTexts = 40'000;
constexpr std::uint64_t kRuns = 3'000;
const SamplingOptions kOptions = {.temperature = 1, .top_p = 0.9, .repetition_penalty = 1.2};

TEST(RejectionStatistics, TwoTokensOfEveryLosslessRuleHaveTheTargetsLaw) {
  Distributions models(kOptions);
  const auto law = models.law();
  for (const NamedRule& rule : acceptance_rules()) {
    const ChiSquare result =
        chi_square(sample_texts(models, models, kTexts, right(rule.rule), rule.races), law);
    EXPECT_TRUE(rule.lossless ? result.accepts() : result.rejects())
        << rule.name << ": " << result.statistic << ", bound " << result.bound() << ", "
        << result.degrees << " degrees";
  }
}

bool kept(const Proposal& draft, double u) {
  return u < draft.target_prob(draft.token) / draft.draft_prob(draft.token);
}

double clamped(double difference) { return std::max(0.0, difference); }

// f(p - q) for each token.
std::span<const double> rest(const Proposal& draft, const Judge& judge, double (*f)(double)) {
  for (TokenId i = 0; i < std::ssize(judge.scratch); i++) {
    judge.scratch[static_cast<std::size_t>(i)] = f(draft.target_prob(i) - draft.draft_prob(i));
  }
  return judge.scratch;
}

Decision residual_not_clamped(const Proposal& draft, const Judge& judge) {
  if (kept(draft, uniform(judge.seed, draft.position, Purpose::kAccept)))
    return {true, draft.token};
  const auto magnitude = [](double difference) { return std::abs(difference); };
  return {false,
          judge.dice.token(rest(draft, judge, magnitude), draft.position, Purpose::kResample)};
}

// Accepts by the q that the draft was not drawn from.
Decision raw_q(const Proposal& draft, const Judge& judge) {
  return rejection({draft.position, draft.token, draft.target_probs, judge.raw.draft}, judge.dice,
                   judge.scratch);
}

Decision top_p_on_one_side(const Proposal& draft, const Judge& judge) {
  return rejection({draft.position, draft.token, judge.raw.target, draft.draft_probs}, judge.dice,
                   judge.scratch);
}

Decision accepted_by_the_drafts_uniform(const Proposal& draft, const Judge& judge) {
  if (kept(draft, uniform(judge.seed, draft.position, Purpose::kDraft))) return {true, draft.token};
  return {false, judge.dice.token(rest(draft, judge, clamped), draft.position, Purpose::kResample)};
}

Decision corrected_by_the_accepting_uniform(const Proposal& draft, const Judge& judge) {
  const double u = uniform(judge.seed, draft.position, Purpose::kAccept);
  if (kept(draft, u)) return {true, draft.token};
  return {false, sample(rest(draft, judge, clamped), u)};
}

// One uniform for every position.
Decision accepted_by_the_first_uniform(const Proposal& draft, const Judge& judge) {
  if (kept(draft, uniform(judge.seed, 0, Purpose::kAccept))) return {true, draft.token};
  return {false, judge.dice.token(rest(draft, judge, clamped), draft.position, Purpose::kResample)};
}

TEST(RejectionStatistics, BiasedSamplersAreRejected) {
  Distributions models(kOptions), raw({.temperature = 1, .repetition_penalty = 1.2});
  const auto law = models.law();
  const std::pair<const char*, Rule> biased[] = {
      {"residual not clamped", residual_not_clamped},
      {"raw q", raw_q},
      {"top-p on one side", top_p_on_one_side},
      {"one uniform drafts and accepts", accepted_by_the_drafts_uniform},
      {"one uniform accepts and corrects", corrected_by_the_accepting_uniform},
      {"one uniform accepts everywhere", accepted_by_the_first_uniform}};
  for (const auto& [name, rule] : biased) {
    const ChiSquare result = chi_square(sample_texts(models, raw, kTexts, rule), law);
    EXPECT_TRUE(result.rejects()) << name << ": " << result.statistic;
  }
}

// The program's own code from the prompt on, two tokens a seed: drafting, verification, acceptance
// and rollback with K = 3.
TEST(RejectionStatistics, TwoTokensOfWholeRunsHaveTheTargetsLaw) {
  Distributions models(kOptions);
  Engine target("target", make_cpu_backend(2), 16), draft("draft", make_cpu_backend(2), 16);
  SamplingDrafter drafter(*draft.llama, 320);
  const GenerationRequest request = request_of(Distributions::prompt(), 2);
  DraftAndVerify steps(*target.llama, drafter, fixed_spec_length(3), 320,
                       Drafts(3, target.llama->vocab_size()));
  steps.prefill(request.prompt);
  const SpeculationOptions options{kOptions, kOptions.temperature};
  std::map<Two, int> counts;
  for (std::uint64_t seed = 0; seed < kRuns; seed++) {
    Dice dice(seed);
    JudgeSetup sampling_judge(steps, dice, options);
    RejectionSampling sampling(steps, sampling_judge);
    Generation generation(request, nullptr);
    Text context = request.prompt;
    while (!generation.finished()) sampling.round(context, generation);
    counts[{generation.tokens()[0], generation.tokens()[1]}]++;
    steps.target().truncate(steps.sequence(), models.position() - 1);
    steps.drafter().truncate(steps.draft_sequence(), models.position() - 1);
  }
  const ChiSquare result = chi_square(counts, models.law());
  EXPECT_TRUE(result.accepts()) << result.statistic << ", bound " << result.bound() << ", "
                                << result.degrees << " degrees";
}

}  // namespace
}  // namespace specdec
