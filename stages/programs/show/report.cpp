#include "stages/programs/show/report.h"

#include <cmath>
#include <cstdio>
#include <limits>

#include <fmt/format.h>

#include "common/base/json_value.h"
#include "common/base/output_file.h"
#include "common/base/streams.h"
#include "common/kv_cache.h"
#include "common/run_stats.h"
#include "stages/programs/run/generation_config.h"

namespace specdec {
namespace {

Json ratio(double above, double below) { return number_or_null(share(above, below)); }

Json run_json(const FinishedRun& run) {
  Json json = {{"tokens", run.generation.tokens()},
               {"text", run.generation.text()},
               {"finish_reason", finish_reason_name(run.generation.finish_reason())},
               {"prompt_tokens", run.request.prompt.size()},
               {"stats", to_json(run.stats)},
               {"model", target_json(run.target, run.options)},
               {"device", run.device},
               {"stage", stage_name(run.options.stage)}};
  json.update(run.extras.fields);
  json["stats"].update(run.extras.stats);
  return json;
}

void print_summary(const FinishedRun& run) {
  const RunOptions& options = run.options;
  say("\n{}: {} tokens ({}), {:.1f} tokens/s on {}; {} rows computed", stage_name(options.stage),
      run.stats.emitted, finish_reason_name(run.generation.finish_reason()),
      run.stats.tokens_per_second(), run.device, run.stats.target_rows);
  if (options.target_weights != WeightFormat::kStored) {
    say(", {} weights", name_of(options.target_weights));
  }
  if (run.stats.cache_bytes > 0) say(", cache of {} bytes", run.stats.cache_bytes);
  if (options.kv_type != KvType::kF32) say(" in {}", name_of(options.kv_type));
  say("{}\n", inflation_note(options));
  say_text(run.extras.summary);
}

}  // namespace

double share(double part, double of) {
  return of == 0 ? std::numeric_limits<double>::quiet_NaN() : part / of;
}

Json number_or_null(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return nullptr;
  return *value;
}

std::string number_or_unknown(double value, int digits, std::string_view unit) {
  return std::isfinite(value) ? fmt::format("{:.{}f}{}", value, digits, unit) : "unknown";
}

void count_target(RunStats& stats, const LlamaCounters& counters) {
  stats.target_rows += counters.rows;
  stats.target_weight_bytes += counters.weight_bytes;
}

Json to_json(const RunStats& s) {
  Json per_position = Json::array();
  for (std::size_t i = 0; i < s.accepted_at.size(); ++i) {
    per_position.push_back(ratio(s.accepted_at[i], s.drafted_at[i]));
  }
  return {{"rounds", s.rounds},
          {"drafted_rounds", s.drafted_rounds},
          {"rounds_by_drafted", s.rounds_by_drafted},
          {"mean_spec_length", ratio(s.drafted, s.rounds)},
          {"target_forwards", s.target_forwards},
          {"draft_forwards", s.draft_forwards},
          {"drafted", s.counted},
          {"tested", s.tested},
          {"accepted", s.accepted},
          {"emitted", s.emitted},
          {"alpha", ratio(s.accepted, s.tested)},
          {"alpha_by_probability", ratio(s.sum_acceptance_prob, s.tested)},
          {"acceptance_rate", ratio(s.accepted, s.counted)},
          {"mean_round_acceptance", ratio(s.sum_round_acceptance, s.drafted_rounds)},
          {"mean_accepted_length", ratio(s.accepted, s.drafted_rounds)},
          {"accepted_per_position", per_position},
          {"prefill_seconds", s.prefill_seconds},
          {"decode_seconds", s.decode_seconds},
          {"draft_seconds", s.draft_seconds},
          {"verify_seconds", s.verify_seconds},
          {"tokens_per_second", s.tokens_per_second()},
          {"target_rows", s.target_rows},
          {"target_weight_bytes", s.target_weight_bytes},
          {"cache_bytes", s.cache_bytes}};
}

Json to_json(const LlamaConfig& config, const std::string& directory, KvType kv_type) {
  const KvShape kv{config.n_layers, config.n_kv_heads, config.head_dim, kv_type};
  return {{"directory", directory},
          {"d_model", config.d_model},
          {"d_ff", config.d_ff},
          {"n_layers", config.n_layers},
          {"n_heads", config.n_heads},
          {"n_kv_heads", config.n_kv_heads},
          {"head_dim", config.head_dim},
          {"vocab_size", config.vocab_size},
          {"max_seq_len", config.max_seq_len},
          {"tied_head", config.tied_head},
          {"eos_ids", config.eos_ids},
          {"cache_bytes_per_token", kv.bytes_per_token()}};
}

Json target_json(const LlamaConfig& config, const RunOptions& options) {
  Json json = to_json(config, options.target, options.kv_type);
  json["weights"] = name_of(options.target_weights);
  json["kv_dtype"] = name_of(options.kv_type);
  if (!options.inflate_target.empty()) json["inflated"] = options.inflate_target;
  return json;
}

std::string inflation_note(const RunOptions& options) {
  const bool target = !options.inflate_target.empty();
  const bool draft = !options.inflate_draft.empty() && !options.no_speculation;
  if (target && draft) {
    return fmt::format("; the target is inflated to {}, the draft to {}", options.inflate_target,
                       options.inflate_draft);
  }
  if (target) return "; the target is inflated to " + options.inflate_target;
  return draft ? "; the draft is inflated to " + options.inflate_draft : "";
}

void report(const FinishedRun& run) {
  const RunOptions& options = run.options;
  if (options.wants_json()) {
    const std::string json = run_json(run).dump();
    if (!options.report.empty()) {
      write_file(options.report, json + "\n");
    }
    if (options.output == OutputFormat::kJson) fmt::print("{}\n", json);
  }
  if (options.output == OutputFormat::kText) {
    if (!run.files.tokenizer) fmt::print("{}", fmt::join(run.generation.tokens(), ","));
    fmt::print("\n");
    flush_stdout();
    if (!options.quiet) print_summary(run);
  }
  say_advice_not_taken(options, options.is_chat());
}

void TextStream::show_new(const Generation& generation) {
  const std::string_view text = generation.certain_text();
  if (!shown_ || text.size() == bytes_) return;
  fmt::print("{}", text.substr(bytes_));
  flush_stdout();
  bytes_ = text.size();
}

}  // namespace specdec
