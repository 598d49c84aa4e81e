#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "kernels/cpu/softmax.h"
#include "stages/05_rejection_sampling/acceptance.h"
#include "tests/cuda/sampling_test.h"

// Random rounds for the tests of the device's judge, and the host's verdicts.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// All rules that a device can apply: those of --acceptance, and their forms with --lenience.
inline std::vector<const NamedRule*> device_rules() {
  std::vector<const NamedRule*> rules;
  for (const NamedRule& rule : acceptance_rules()) {
    if (rule.on_device) rules.push_back(&rule);
  }
  rules.push_back(&lenient_rule(1));
  rules.push_back(&lenient_rule(0));
  return rules;
}

inline bool takes_lenience(const NamedRule& rule) {
  return rule.rule == lenient || rule.rule == lenient_argmax;
}

// A round, the logits that drafted it, and the location of its drafts' distributions.
struct TestRound {
  const NamedRule* rule = nullptr;
  double lenience = 1;
  std::uint64_t seed = 0;
  int position = 0;
  TestRows logits{0, 0};        // [K + 1, V]
  TestRows draft_logits{0, 0};  // [K, V]
  std::vector<std::int32_t> history = {};
  RowSampling sampling = {};  // without the history, which would dangle
  std::vector<std::int32_t> drafts = {};
  std::vector<std::vector<double>> host_draft_probs = {};  // [K] of [V]; empty: one-hot

  int drafted() const { return static_cast<int>(drafts.size()); }
  int vocab_size() const { return logits.width(); }
  // The logits and options of row i's distribution. `context`: the history and the drafts.
  RowSampling sampling_of(int i, const std::vector<std::int32_t>& context) const {
    RowSampling row = sampling;
    row.history = std::span(context).first(history.size() + index_of(i));
    return row;
  }
  std::vector<std::int32_t> context() const {
    std::vector<std::int32_t> tokens = history;
    tokens.insert(tokens.end(), drafts.begin(), drafts.end());
    return tokens;
  }
};

inline TestRound random_round(TestNumbers& numbers, const NamedRule& rule, int V) {
  const int K = numbers.below(9);
  TestRound round{
      .rule = &rule,
      .lenience = takes_lenience(rule) ? one_of<double>(numbers, {0.1, 0.5, 0.9, 1}) : 1,
      .seed = numbers.bits() * std::uint64_t{0x100000003},
      .position = numbers.below(5000),
      .logits = TestRows(K + 1, V),
      .draft_logits = TestRows(K, V),
      .history = random_history(numbers, V, numbers.below(6))};
  SamplingOptions options{.temperature = 1};
  if (numbers.below(3) == 0) options = random_options(numbers, V);
  if (numbers.below(3) == 0) options.repetition_penalty = 1.5;
  if (rule.rule == lenient_argmax) {
    options = {.temperature = 1, .repetition_penalty = options.repetition_penalty};
  }
  round.sampling = row_sampling(options, {});
  Dice dice(round.seed);
  for (int i = 0; i <= K; ++i) random_logits(numbers, round.logits.row(i), V);
  for (int i = 0; i < K; ++i) {
    float* draft_logits = round.draft_logits.row(i);
    random_draft_logits(numbers, round.logits.row(i), draft_logits, V);
    const auto context = round.context();
    auto probs = host_probs(round.draft_logits.view(), i, round.sampling_of(i, context), V);
    round.drafts.push_back(rule.races ? dice.race(probs, round.position + i)
                                      : dice.token(probs, round.position + i, Purpose::kDraft));
    if (numbers.below(4) == 0) probs.clear();
    round.host_draft_probs.push_back(std::move(probs));
  }
  return round;
}

// Judge::judge() of stage 5, to the end of the round.
inline Verdict host_verdict(const TestRound& round, std::vector<double>& acceptance_probs) {
  const int V = round.vocab_size();
  const auto context = round.context();
  Dice dice(round.seed);
  std::vector<double> scratch(index_of(V));
  for (int i = 0;; ++i) {
    std::vector<double> p;
    try {
      p = host_probs(round.logits.view(), i, round.sampling_of(i, context), V);
    } catch (const Error&) {
      return {i, -1};
    }
    const int position = round.position + i;
    if (i == round.drafted()) {
      if (round.rule->races) return {i, dice.race(p, position)};
      if (round.rule->rule == lenient_argmax) {
        return {i, static_cast<TokenId>(std::ranges::max_element(p) - p.begin())};
      }
      return {i, dice.token(p, position, Purpose::kTarget)};
    }
    const std::vector<double>& q = round.host_draft_probs[index_of(i)];
    const TokenId x = round.drafts[index_of(i)];
    std::vector<double> overlap;
    for (std::size_t t = 0; t < q.size(); ++t) overlap.push_back(std::min(p[t], q[t]));
    acceptance_probs.push_back(q.empty() ? p[index_of(x)] : cpu::sum(overlap));
    const Decision decision = round.rule->rule({position, x, p, q, round.lenience}, dice, scratch);
    if (!decision.accepted) return {i, decision.token};
  }
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
