#include "stages/programs/speculation/speedup.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "common/base/json_value.h"
#include "common/run_stats.h"
#include "common/speculation/paper_formulas.h"

namespace specdec {
namespace {

double per(std::int64_t above, std::int64_t below) {
  return share(static_cast<double>(above), static_cast<double>(below));
}

}  // namespace

Speedup speedup(const RunStats& stats, const StepTimes& times) {
  Speedup result;
  if (times.samples == 0 || stats.rounds == 0) return result;
  const double pass = times.target_pass, rounds = static_cast<double>(stats.rounds);
  const auto draft_steps = static_cast<double>(stats.drafted + stats.refused);
  const auto drafted_rounds = static_cast<double>(stats.drafted_rounds);
  if (stats.drafted_rounds > 0) {
    result.c = times.draft_step / pass;
    result.v = times.verification / pass;
  }
  // Seconds of all target passes. A round that drafted nothing is a plain step.
  const double verifications =
      drafted_rounds * times.verification + (rounds - drafted_rounds) * pass;
  const double alpha = per(stats.accepted, stats.tested);
  if (std::isfinite(alpha)) {
    double emitted = 0;
    for (int K = 0; K < std::ssize(stats.rounds_by_drafted); K++) {
      emitted += static_cast<double>(stats.rounds_by_drafted[K]) * expected_emitted(alpha, K);
    }
    result.by_formula = emitted * pass / (draft_steps * times.draft_step + verifications);
  }
  const double catching_up = std::max(
      0.0, stats.catch_up_seconds - static_cast<double>(stats.catch_up_drafted) * times.mean_draft);
  const double overhead =
      stats.decode_seconds - stats.draft_seconds - stats.verify_seconds + catching_up;
  result.by_accounting = static_cast<double>(stats.emitted) * (pass + times.choice) /
                         (draft_steps * times.mean_draft + verifications + overhead);
  result.by_clock = times.plain_token * static_cast<double>(stats.emitted) / stats.decode_seconds;
  return result;
}

void add_to_json(Json& json, const RunStats& stats, const Speedup& speedup) {
  json["tokens_per_target_forward"] = number_or_null(per(stats.emitted, stats.target_forwards));
  json["c"] = number_or_null(speedup.c);
  json["v"] = number_or_null(speedup.v);
  json["speedup_formula"] = number_or_null(speedup.by_formula);
  json["speedup_accounting"] = number_or_null(speedup.by_accounting);
  json["speedup_clock"] = number_or_null(speedup.by_clock);
}

std::string summary(const RunStats& stats, const Speedup& speedup, int samples) {
  std::string lines = fmt::format(
      "alpha {} ({} of {} tested), {} tokens per target forward, c {}, v {} ({} samples)\n",
      number_or_unknown(per(stats.accepted, stats.tested), 3), stats.accepted, stats.tested,
      number_or_unknown(per(stats.emitted, stats.target_forwards), 2),
      number_or_unknown(speedup.c, 3), number_or_unknown(speedup.v, 2), samples);
  lines += fmt::format(
      "speedup over plain decoding: {} by formula, {} by accounting, {} by the clock\n",
      number_or_unknown(speedup.by_formula, 2), number_or_unknown(speedup.by_accounting, 2),
      number_or_unknown(speedup.by_clock, 2));
  return lines;
}

}  // namespace specdec
