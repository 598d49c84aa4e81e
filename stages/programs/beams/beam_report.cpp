#include "stages/programs/beams/beam_report.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/streams.h"
#include "common/generation.h"
#include "stages/programs/beams/beam_session.h"
#include "stages/programs/show/report.h"

namespace specdec {
namespace {

// A hypothesis as the output of a request.
Generation generation_of(const FoundBeams& found, const Hypothesis& hypothesis) {
  Generation generation(found.request, found.files.tokenizer_or_null());
  for (const TokenId token : hypothesis.tokens) generation.push(token);
  return generation;
}

std::span<const Hypothesis> returned(const FoundBeams& found) {
  const auto count = static_cast<std::size_t>(found.options.num_return);
  return found.hypotheses.first(std::min(count, found.hypotheses.size()));
}

Json hypotheses_json(const FoundBeams& found) {
  Json list = Json::array();
  for (const Hypothesis& hypothesis : returned(found)) {
    const Generation generation = generation_of(found, hypothesis);
    list.push_back({{"tokens", hypothesis.tokens},
                    {"text", generation.text()},
                    {"finish_reason", finish_reason_name(generation.finish_reason())},
                    {"sum", hypothesis.sum},
                    {"score", hypothesis.score}});
  }
  return list;
}

double per_round(const FoundBeams& found, std::int64_t count) {
  return share(static_cast<double>(count), static_cast<double>(found.stats.rounds));
}

std::string summary_of(const FoundBeams& found, const Speedup& gained) {
  const RunOptions& options = found.options;
  const RunStats& stats = found.stats;
  std::string lines = fmt::format(
      "{} beams; the best text has {} tokens and the score {:.4f}; {:.1f} cached tokens beside the "
      "common text\n",
      options.beams, found.hypotheses.front().tokens.size(), found.hypotheses.front().score,
      per_round(found, found.kept));
  if (options.no_speculation) return lines;
  lines += fmt::format("{} draft beams: {} steps in {} passes of the target\n",
                       draft_width(options), stats.emitted, stats.rounds);
  lines += summary(stats, gained, found.times.samples);
  if (gained.by_clock < 1) {
    lines += "speculation did not pay here: plain beam search (--no-speculation) is faster\n";
  }
  return lines;
}

ReportExtras extras_of(const FoundBeams& found) {
  const RunOptions& options = found.options;
  const Speedup gained = speedup(found.stats, found.times);
  ReportExtras extras;
  extras.fields = {{"draft", found.draft.to_json()},
                   {"spec_length", spec_length_json(options)},
                   {"beams", options.beams},
                   {"draft_beams", options.no_speculation ? Json() : Json(draft_width(options))},
                   {"length_penalty", options.length_penalty},
                   {"early_stopping", name_of(options.early_stopping)},
                   {"acceptance", "greedy"},
                   {"lossless", true},
                   {"hypotheses", hypotheses_json(found)}};
  extras.stats = {{"steps", found.stats.emitted},
                  {"mean_kept", number_or_null(per_round(found, found.kept))}};
  add_to_json(extras.stats, found.stats, gained);
  extras.summary =
      summary_of(found, gained) +
      found.draft.outgrown(static_cast<int>(found.request.prompt.size() + found.stats.emitted));
  return extras;
}

void print_heading(const FoundBeams& found, std::size_t number) {
  if (found.options.num_return == 1) return;
  fmt::print("[{}] {:.4f}\n", number + 1, found.hypotheses[number].score);
}

// The texts after the best one.
void print_others(const FoundBeams& found) {
  for (std::size_t i = 1; i < returned(found).size(); i++) {
    const Hypothesis& hypothesis = found.hypotheses[i];
    print_heading(found, i);
    if (found.files.tokenizer) {
      fmt::print("{}\n", generation_of(found, hypothesis).text());
    } else {
      fmt::print("{}\n", fmt::join(hypothesis.tokens, ","));
    }
  }
  flush_stdout();
}

}  // namespace

void report_beams(const FoundBeams& found) {
  const bool is_text = found.options.output == OutputFormat::kText;
  const Generation best = generation_of(found, found.hypotheses.front());
  if (is_text) print_heading(found, 0);
  TextStream(found.options).show_new(best);
  report({found.options, found.files, found.request, found.target, best, found.stats, found.device,
          extras_of(found)});
  if (is_text) print_others(found);
}

}  // namespace specdec
