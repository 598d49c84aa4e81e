#include "stages/programs/sampling/sampling_check.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "kernels/int_size.h"
#include "stages/05_rejection_sampling/rejection_sampling.h"
#include "stages/programs/sampling/golden_run.h"
#include "stages/programs/sampling/speculation_options.h"
#include "stages/programs/speculation/checked_run.h"

namespace specdec {
namespace {

// The recorded probabilities are those of a float64 model, so they differ a little.
bool close(double got, double want) { return std::abs(got - want) <= 1e-3 * want + 1e-6; }

// The first decision of the round that differs from the recorded one, or an empty text.
std::string compare(const GoldenRound& want, const Round& round, const DraftAndVerify& steps,
                    const Judge& judge, std::span<const TokenId> emitted) {
  const auto differs = [](const char* what, auto got, auto wanted) {
    return fmt::format("{} is {}, recorded is {}", what, got, wanted);
  };
  if (round.start != want.start) return differs("start", round.start, want.start);
  if (round.drafted != want.spec_length) return differs("K", round.drafted, want.spec_length);
  for (int i = 0; i < round.drafted; i++) {
    const TokenId token = want.drafts[i];
    if (steps.drafts().token(i) != token) return differs("draft", steps.drafts().token(i), token);
  }
  const auto tests = int_size(want.tests);
  for (int i = 0; i < std::min(round.tested(), tests); i++) {
    const GoldenRound::Test& test = want.tests[i];
    const auto token = static_cast<std::size_t>(steps.drafts().token(i));
    const double p = judge.target_probs(i)[token];
    if (!close(p, test.target_prob)) return differs("p", p, test.target_prob);
    const auto probs = steps.drafts().probs(i);
    const double q = probs.empty() ? 1 : probs[token];
    if (!close(q, test.draft_prob)) return differs("q", q, test.draft_prob);
  }
  if (round.accepted != want.accepted) return differs("accepted", round.accepted, want.accepted);
  if (!std::ranges::equal(emitted, want.emitted)) return "the emitted tokens differ";
  if (round.target_length() != want.target_length) {
    return differs("cached", round.target_length(), want.target_length);
  }
  if (round.draft_length() != want.draft_length) {
    return differs("cached by the draft", round.draft_length(), want.draft_length);
  }
  return "";
}

using Look = std::function<std::string(std::size_t number, const Round&, const Judge&)>;

// Runs a request with the target and --draft. Returns the first problem of `look`, or "".
std::string rounds(CheckedRun& run, const SpeculationOptions& speculation, std::uint64_t seed,
                   const Look& look) {
  Dice dice(seed);
  const auto judge = make_judge(run.steps, dice, speculation);
  for (std::size_t number = 0; !run.generation.finished(); ++number) {
    const Round round = sampled_round(run.steps, *judge, run.context, run.generation);
    const std::string problem = look(number, round, *judge);
    if (!problem.empty()) return fmt::format("round {}: {}", number + 1, problem);
  }
  return "";
}

CheckedRun run_of(const CheckedTarget& target, const GenerationRequest& request, int K, int limit) {
  RunOptions options = target.options;
  options.spec_length = K;
  options.max_context = limit;
  return {target, options, request, {.drafting = sampled_drafting(KeepProbs::kBesideLogits)}};
}

std::string check_run(const CheckedTarget& target, const GoldenRun& want) {
  CheckedRun run = run_of(target, want.generation, want.spec_length, want.context_limit);
  return rounds(run, want.speculation, want.seed,
                [&](std::size_t number, const Round& round, const Judge& judge) {
                  if (number >= want.rounds.size()) return std::string("one round too many");
                  const auto emitted = std::span(run.context).last(std::size_t(round.emitted()));
                  return compare(want.rounds[number], round, run.steps, judge, emitted);
                });
}

// At temperature 0, every rule must emit the greedy text.
std::string check_text(const CheckedTarget& target, const GoldenText& text, const NamedRule& rule) {
  CheckedRun run = run_of(target, target.request(text), 5, 0);
  rounds(run, {.rule = &rule}, 0, [](auto&&...) { return std::string(); });
  return run.difference(text.tokens());
}

}  // namespace

int check_rejection_sampling(const RunOptions& options) {
  const CheckedTarget target(options);
  CheckList list;
  list.note_missing(target.goldens, {"sampling.jsonl", "greedy.jsonl"});
  const std::vector<GoldenRun> runs = golden_runs(target.goldens, target.model.config());
  for (const GoldenRun& run : runs) {
    list.check(fmt::format("recorded run {}: {} rounds", run.id, run.rounds.size()),
               check_run(target, run));
  }
  for (const GoldenText& text : target.texts) {
    const bool by_every_rule = text.id.ends_with("-0");
    if (!by_every_rule && !runs.empty()) continue;  // the recorded runs are enough
    const auto rules = acceptance_rules();
    for (const NamedRule& rule : by_every_rule ? rules : rules.first(1)) {
      list.check(fmt::format("greedy text {} by {}", text.id, rule.name),
                 check_text(target, text, rule));
    }
  }
  return list.finish();
}

}  // namespace specdec
