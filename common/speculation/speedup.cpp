#include "common/speculation/speedup.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "common/analysis/speculation_model.h"

namespace specdec {
namespace {

double per(std::int64_t above, std::int64_t below) {
  return below > 0 ? static_cast<double>(above) / static_cast<double>(below) : Speedup::kUnknown;
}

nlohmann::json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  return value;
}

std::string text(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "unknown";
}

}  // namespace

Speedup speedup(const RunStats& stats, int spec_length, const StepTimes& times) {
  Speedup result;
  if (times.samples == 0 || stats.rounds == 0) return result;
  const double pass = times.target_pass, rounds = static_cast<double>(stats.rounds);
  result.c = times.draft_step / pass;
  result.v = times.verification / pass;
  const double alpha = per(stats.accepted, stats.tested);
  if (std::isfinite(alpha)) {
    const double speculative = static_cast<double>(stats.drafted_rounds) / rounds;
    const double emitted = 1 + speculative * (expected_emitted(alpha, spec_length) - 1);
    result.by_formula =
        emitted / (speculative * (spec_length * result.c + result.v) + 1 - speculative);
  }
  const double lazy_prefill =
      std::max(0.0, stats.first_draft_seconds - spec_length * times.draft_step);
  const double overhead =
      (stats.decode_seconds - stats.draft_seconds - stats.verify_seconds + lazy_prefill) / rounds;
  const double drafted = static_cast<double>(stats.all_drafted) / rounds;
  // A round that drafted fewer verified fewer rows.
  const double verification = pass + (times.verification - pass) * drafted / spec_length;
  result.by_accounting = static_cast<double>(stats.emitted) / rounds * (pass + times.choice) /
                         (drafted * times.draft_step + verification + overhead);
  result.by_clock = times.plain_token * static_cast<double>(stats.emitted) / stats.decode_seconds;
  return result;
}

void add_to_json(nlohmann::json& json, const RunStats& stats, const Speedup& speedup) {
  json["tokens_per_target_forward"] = number(per(stats.emitted, stats.target_forwards));
  json["c"] = number(speedup.c);
  json["v"] = number(speedup.v);
  json["speedup_formula"] = number(speedup.by_formula);
  json["speedup_accounting"] = number(speedup.by_accounting);
  json["speedup_clock"] = number(speedup.by_clock);
}

std::string summary(const RunStats& stats, const Speedup& speedup, int samples) {
  std::string lines = fmt::format(
      "alpha {} ({} of {} tested), {} tokens per target forward, c {}, v {} ({} samples)\n",
      text(per(stats.accepted, stats.tested), 3), stats.accepted, stats.tested,
      text(per(stats.emitted, stats.target_forwards), 2), text(speedup.c, 3), text(speedup.v, 2),
      samples);
  lines += fmt::format(
      "speed-up over plain decoding: {} by formula, {} by accounting, {} by the clock\n",
      text(speedup.by_formula, 2), text(speedup.by_accounting, 2), text(speedup.by_clock, 2));
  return lines;
}

}  // namespace specdec
