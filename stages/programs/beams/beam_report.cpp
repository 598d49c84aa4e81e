#include "stages/programs/beams/beam_report.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/streams.h"
#include "common/generation.h"
#include "stages/programs/beams/beam_options.h"
#include "stages/programs/show/report.h"
#include "stages/programs/speculation/trace_file.h"

namespace specdec {
namespace {

FoundTexts texts(const FoundBeams& found) {
  return {found.options, found.files, found.request, found.hypotheses};
}

// A hypothesis as the output of a request.
Generation generation_of(const FoundTexts& found, const Hypothesis& hypothesis) {
  Generation generation(found.request, found.files.tokenizer_or_null());
  for (const TokenId token : hypothesis.tokens) generation.push(token);
  return generation;
}

std::span<const Hypothesis> returned(const FoundTexts& found) {
  const auto count = static_cast<std::size_t>(found.options.num_return);
  return found.hypotheses.first(std::min(count, found.hypotheses.size()));
}

Json hypotheses_json(const FoundTexts& found, std::span<const Hypothesis> hypotheses) {
  Json list = Json::array();
  for (const Hypothesis& hypothesis : hypotheses) {
    const Generation generation = generation_of(found, hypothesis);
    list.push_back({{"tokens", hypothesis.tokens},
                    {"text", generation.text()},
                    {"finish_reason", finish_reason_name(generation.finish_reason())},
                    {"sum", hypothesis.sum},
                    {"score", hypothesis.score}});
  }
  return list;
}

Json rules_json(const RunOptions& options) {
  return {{"beams", options.beams},
          {"draft_beams", options.no_speculation ? Json() : Json(draft_width(options))},
          {"length_penalty", options.length_penalty},
          {"early_stopping", name_of(options.early_stopping)}};
}

std::string heading(const FoundTexts& found, std::size_t number) {
  return fmt::format("[{}] {:.4f}\n", number + 1, found.hypotheses[number].score);
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
                   {"acceptance", "greedy"},
                   {"lossless", true}};
  extras.fields.update(to_json(texts(found)));
  extras.stats = {{"steps", found.stats.emitted},
                  {"mean_kept", number_or_null(per_round(found, found.kept))}};
  add_to_json(extras.stats, found.stats, gained);
  extras.summary =
      summary_of(found, gained) +
      found.draft.outgrown(static_cast<int>(found.request.prompt.size() + found.stats.emitted));
  return extras;
}

void write_trace(const FoundBeams& found, const Generation& best, const Json& of_report) {
  const KvCache* draft_cache = found.draft.cache();
  Json stats = to_json(found.stats);
  stats.update(of_report);
  TraceFile trace{.format = kBeamTrace,
                  .options = found.options,
                  .tokenizer = found.files.tokenizer_or_null(),
                  .request = found.request,
                  .generation = best,
                  .rule = "greedy",
                  .page_size = found.page_size,
                  .draft_page_size = draft_cache ? draft_cache->page_size() : 0,
                  .spec_length = spec_length_json(found.options),
                  .stats = stats,
                  .tokens = found.log.tokens(),
                  .rounds = found.log.rounds(),
                  .more = rules_json(found.options)};
  trace.more["hypotheses"] = hypotheses_json(texts(found), found.hypotheses);
  write(trace);
}

}  // namespace

Json to_json(const FoundTexts& found) {
  Json json = rules_json(found.options);
  json["hypotheses"] = hypotheses_json(found, returned(found));
  return json;
}

std::string other_texts(const FoundTexts& found) {
  std::string lines;
  for (std::size_t i = 1; i < returned(found).size(); i++) {
    const Hypothesis& hypothesis = found.hypotheses[i];
    lines += heading(found, i);
    if (found.files.tokenizer) {
      lines += generation_of(found, hypothesis).text() + "\n";
    } else {
      lines += fmt::format("{}\n", fmt::join(hypothesis.tokens, ","));
    }
  }
  return lines;
}

void report_beams(const FoundBeams& found) {
  const bool is_text = found.options.output == OutputFormat::kText;
  const Generation best = generation_of(texts(found), found.hypotheses.front());
  if (is_text && found.options.num_return > 1) fmt::print("{}", heading(texts(found), 0));
  TextStream(found.options).show_new(best);
  const ReportExtras extras = extras_of(found);
  if (!found.options.trace.empty()) write_trace(found, best, extras.stats);
  report({found.options, found.files, found.request, found.target, best, found.stats, found.device,
          extras});
  if (!is_text) return;
  fmt::print("{}", other_texts(texts(found)));
  flush_stdout();
}

}  // namespace specdec
