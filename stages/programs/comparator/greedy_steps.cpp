#include "stages/programs/comparator/greedy_steps.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/base/error.h"
#include "common/base/json_value.h"
#include "stages/programs/comparator/matrix.h"
#include "stages/programs/comparator/number_lists.h"

namespace specdec {
namespace {

std::vector<GreedyStep> put_together(const std::string& name, std::span<const TokenId> tokens,
                                     std::span<const double> margins,
                                     std::span<const double> max_abs) {
  if (margins.size() != tokens.size() || max_abs.size() != tokens.size()) {
    fail("{}: {} tokens, {} margins and {} max_abs; there must be one of each per step", name,
         tokens.size(), margins.size(), max_abs.size());
  }
  std::vector<GreedyStep> steps;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    steps.push_back({tokens[i], margins[i], max_abs[i]});
  }
  return steps;
}

}  // namespace

std::vector<GreedyStep> read_greedy_steps(const JsonObject& line, int vocab_size) {
  return put_together(line.name(), read_tokens(line, "tokens", vocab_size),
                      read_numbers(line, "margins"), read_numbers(line, "max_abs"));
}

std::vector<GreedyStep> read_greedy_steps(const SafetensorsFile& file, int vocab_size) {
  return put_together(file.name(), read_tokens(file, "tokens", vocab_size),
                      read_numbers(file, "margins"), read_numbers(file, "max_abs"));
}

StepVerdict judge_step(TokenId got, const GreedyStep& want, double tolerance) {
  if (got == want.token) return StepVerdict::kEqual;
  const bool may_turn = within(want.margin, 2 * tolerance * want.max_abs);
  return may_turn ? StepVerdict::kNearTie : StepVerdict::kWrong;
}

GreedyComparison compare_greedy(std::span<const TokenId> got, std::span<const GreedyStep> want,
                                double tolerance) {
  GreedyComparison result;
  std::string wrong;
  const std::size_t both = std::min(got.size(), want.size());
  for (std::size_t i = 0; i < both && wrong.empty(); ++i) {
    ++result.compared;
    const StepVerdict verdict = judge_step(got[i], want[i], tolerance);
    if (verdict == StepVerdict::kNearTie) result.near_ties.push_back(i);
    if (verdict != StepVerdict::kWrong) continue;
    result.wrong_step = i;
    wrong = fmt::format(
        "step {}: got token {}, want {}; the margin {:.3g} is above 2 x {:.1e} x {:.3g}: "
        "rounding does not explain that",
        i, got[i], want[i].token, want[i].margin, tolerance, want[i].max_abs);
  }
  if (wrong.empty() && got.size() != want.size()) {
    result.wrong_step = both;
    wrong = fmt::format("{} steps, want {}", got.size(), want.size());
  }
  result.report =
      fmt::format("{}; near-ties: {}",
                  wrong.empty() ? fmt::format("{} greedy steps agree", result.compared) : wrong,
                  result.near_ties.size());
  return result;
}

}  // namespace specdec
