#include "stages/programs/batch/batch_report.h"

#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "common/base/exit_code.h"
#include "common/base/json_value.h"
#include "common/base/output_file.h"
#include "common/base/streams.h"
#include "common/run_stats.h"
#include "kernels/int_size.h"
#include "stages/programs/batch/batch_json.h"
#include "stages/programs/run/generation_config.h"
#include "stages/programs/show/report.h"

namespace specdec {
namespace {

std::string milliseconds(double seconds) { return number_or_unknown(1e3 * seconds, 1, " ms"); }

std::string ratio(std::int64_t part, std::int64_t of) {
  return number_or_unknown(share(static_cast<double>(part), static_cast<double>(of)));
}

Json spec_length_json(const BatchRequest& request) {
  if (request.make_policy) return kAuto;
  return request.spec_length;
}

// A line about a finished request.
std::string line_about(const std::string& id, const RequestResult& result) {
  const RequestStats& s = result.stats;
  std::string line =
      fmt::format("{}: {} tokens ({}), first after {}, then one every {}", id, result.tokens.size(),
                  finish_reason_name(result.finish_reason), milliseconds(s.time_to_first_token()),
                  milliseconds(s.time_per_output_token()));
  if (s.run.tested > 0) {
    line += fmt::format("; alpha {}, {} tokens per round", ratio(s.run.accepted, s.run.tested),
                        ratio(s.run.emitted, s.run.rounds));
  }
  if (s.prefix_tokens > 0) {
    line += fmt::format("; {} of {} prompt tokens found", s.prefix_tokens, result.prompt_tokens);
  }
  if (s.preemptions > 0) line += fmt::format("; preempted {} times", s.preemptions);
  return line + "\n";
}

std::vector<RequestResult> those_there(const std::vector<std::optional<RequestResult>>& results) {
  std::vector<RequestResult> there;
  for (const auto& result : results) {
    if (result) there.push_back(*result);
  }
  return there;
}

std::string about_acceptance(const RunStats& total, const EngineStats& stats) {
  if (total.tested == 0) return "";
  return fmt::format(
      "alpha {} ({} of {} tested), {} tokens per round, {} target forwards per token\n",
      ratio(total.accepted, total.tested), total.accepted, total.tested,
      ratio(total.emitted, total.rounds), ratio(stats.target_forwards, total.emitted));
}

std::string about_latency(std::span<const RequestResult> results) {
  std::vector<double> first, each;
  for (const RequestResult& result : results) {
    if (result.stats.run.emitted > 0) first.push_back(result.stats.time_to_first_token());
    if (result.stats.run.emitted > 1) each.push_back(result.stats.time_per_output_token());
  }
  return fmt::format("time to first token: p50 {}, p95 {}; time per output token: p50 {}, p95 {}\n",
                     milliseconds(quantile(first, 0.5)), milliseconds(quantile(first, 0.95)),
                     milliseconds(quantile(each, 0.5)), milliseconds(quantile(each, 0.95)));
}

std::string about_pages(const BatchEngine& engine) {
  const KvPool &target = engine.target_pool(), &draft = engine.draft_pool();
  const EngineStats& stats = engine.stats();
  std::string text = fmt::format("pages: at most {} of {}", target.peak_used(), target.n_pages());
  if (draft.cache()) {
    text += fmt::format(", of the draft {} of {}", draft.peak_used(), draft.n_pages());
  }
  if (target.prefixes()) {
    text += fmt::format("; prefix cache: {} of {} prompt tokens found", stats.prefix_tokens,
                        stats.prompt_tokens);
  }
  return text + fmt::format("; {} preemptions\n", stats.preemptions);
}

int longest_text(std::span<const RequestResult> results) {
  int longest = 0;
  for (const RequestResult& result : results) {
    longest = std::max(longest, result.prompt_tokens + int_size(result.tokens));
  }
  return longest;
}

}  // namespace

BatchReport::BatchReport(BatchSession& session, std::span<const BatchRequest> requests)
    : session_(session),
      requests_(requests),
      text_(session.options.output == OutputFormat::kText),
      people_(text_ && !session.options.quiet),
      progress_(!session.options.quiet && ::isatty(::fileno(stderr)) != 0 &&
                !(text_ && ::isatty(::fileno(stdout)) != 0)),  // the text itself shows progress
      results_(requests.size()),
      texts_(requests.size()) {}

BatchReport::~BatchReport() { clear_progress(); }

void BatchReport::begin() {
  if (!people_) return;
  say_text(session_.memory.to_text());
  say_text(session_.announcement);
}

// Reports an error, even with --quiet.
void BatchReport::complain(std::size_t place, std::string_view what, const std::string& error) {
  const BatchRequest& request = requests_[place];
  clear_progress();
  say("{}: request {} ({}) {}: {}\n", stage_name(session_.options.stage), request.id, request.where,
      what, error);
  failed_++;
}

void BatchReport::refused(std::size_t place, const std::string& error) {
  complain(place, "is refused", error);
  RequestResult result;
  result.finish_reason = FinishReason::kError;
  result.error = error;
  results_[place] = std::move(result);
  print_due();
}

void BatchReport::after_step(const StepReport& report) {
  if (session_.options.explain) {
    clear_progress();
    say("{}\n", to_text(report));
  }
  for (const RequestId id : report.finished) take(id, places_.at(id));
  print_due();
  if (!session_.options.trace.empty()) steps_.push_back(report);
  if (progress_) show_progress(report);
}

void BatchReport::take(RequestId id, std::size_t place) {
  RequestResult result = session_.engine.take_result(id);
  done_++;
  if (result.finish_reason == FinishReason::kError) complain(place, "has failed", result.error);
  if (people_ && requests_.size() > 1) {
    clear_progress();
    say_text(line_about(requests_[place].id, result));
  }
  results_[place] = std::move(result);
}

OnDelivery BatchReport::delivery(std::size_t place) {
  if (!text_ || !session_.files.tokenizer) return {};
  return [this, place](const Delivery& delivery) { texts_[place] += delivery.text; };
}

// Prints the new part of the text that is next in the order of the input.
void BatchReport::stream() {
  const std::string& text = texts_[printed_];
  if (text.size() == streamed_) return;
  clear_progress();
  if (!begun_ && requests_.size() > 1) {
    fmt::print("== {}\n", requests_[printed_].id);
  }
  begun_ = true;
  fmt::print("{}", std::string_view(text).substr(streamed_));
  flush_stdout();
  streamed_ = text.size();
}

// Prints results in the order of the input, each as soon as it and all earlier ones are complete.
void BatchReport::print_due() {
  for (; printed_ < results_.size() && results_[printed_]; printed_++) print(printed_);
  if (text_ && printed_ < texts_.size()) stream();
  flush_stdout();
}

void BatchReport::print(std::size_t place) {
  const RequestResult& result = *results_[place];
  const BatchRequest& request = requests_[place];
  if (!text_ || !session_.options.report.empty()) {
    write_line(result_json(result, request).dump());
  }
  if (!text_) return;
  clear_progress();
  if (!begun_ && requests_.size() > 1) fmt::print("== {}\n", request.id);
  if (session_.files.tokenizer) {
    fmt::print("{}\n", std::string_view(result.text).substr(std::exchange(streamed_, 0)));
    begun_ = false;
  } else {
    fmt::print("{}\n", fmt::join(result.tokens, ","));
  }
  if (session_.extras_of) fmt::print("{}", session_.extras_of(request, result).summary);
}

void BatchReport::write_line(const std::string& line) {
  if (!text_) fmt::print("{}\n", line);
  if (!session_.options.report.empty()) lines_ += line + "\n";
}

void BatchReport::show_progress(const StepReport& report) {
  constexpr double kEvery = 0.1;  // seconds
  if (report.ended - shown_at_ < kEvery) return;
  shown_at_ = report.ended;
  shown_ = true;
  say("\r\x1b[K{} waiting, {} running, {} of {} done; {:.0f} tokens/s; pages {} of {}",
      report.waiting, report.prefilling + report.running, done_, requests_.size(),
      static_cast<double>(session_.engine.stats().emitted) / report.ended, report.pages,
      session_.engine.target_pool().n_pages());
}

void BatchReport::clear_progress() {
  if (shown_) say("\r\x1b[K");
  shown_ = false;
}

Json BatchReport::result_json(const RequestResult& result, const BatchRequest& request) const {
  const RunOptions& options = session_.options;
  Json json = {{"id", request.id},
               {"tokens", result.tokens},
               {"text", result.text},
               {"finish_reason", finish_reason_name(result.finish_reason)},
               {"prompt_tokens", result.prompt_tokens},
               {"stats", to_json(result.stats)},
               {"model", target_json(session_.target.model.config(), options)},
               {"device", session_.target.backend->name()},
               {"stage", stage_name(options.stage)},
               {"draft", session_.draft.to_json()},
               {"spec_length", spec_length_json(request)}};
  if (!result.error.empty()) json["error"] = result.error;
  if (session_.extras_of) json.update(session_.extras_of(request, result).fields);
  return json;
}

Json BatchReport::summary_json() const {
  const std::vector<RequestResult> results = those_there(results_);
  std::map<std::string, int> reasons;
  std::vector<double> first, each;
  for (const RequestResult& result : results) {
    reasons[std::string(finish_reason_name(result.finish_reason))]++;
    first.push_back(result.stats.time_to_first_token());
    each.push_back(result.stats.time_per_output_token());
  }
  RunStats total = total_stats(results);
  total.target_rows = 0;  // count_target() adds the model's count
  count_target(total, session_.target.llama.counters());
  total.target_forwards = session_.engine.stats().target_forwards;
  total.draft_forwards = session_.draft.drafter().forwards();
  total.draft_seconds = session_.engine.stats().draft_seconds;
  total.verify_seconds = session_.engine.stats().verify_seconds;
  total.cache_bytes = static_cast<std::int64_t>(session_.target.cache->memory().bytes());
  const double seconds = session_.engine.now();
  Json stats = to_json(total);
  stats.erase("prefill_seconds");  // sums over concurrent requests would mean nothing
  stats.erase("decode_seconds");
  stats["tokens_per_second"] = static_cast<double>(total.emitted) / seconds;
  Json json = to_json(session_.engine);
  json.update({{"requests", results.size()},
               {"finish_reasons", reasons},
               {"seconds", seconds},
               {"stats", stats},
               {"time_to_first_token", distribution(first)},
               {"time_per_output_token", distribution(each)},
               {"memory", session_.memory.to_json()},
               {"model", target_json(session_.target.model.config(), session_.options)},
               {"draft", session_.draft.to_json()},
               {"device", session_.target.backend->name()}});
  json.update(session_.extras.fields);
  return {{"summary", json}};
}

std::string BatchReport::summary() const {
  const std::vector<RequestResult> results = those_there(results_);
  const RunStats total = total_stats(results);
  const EngineStats& stats = session_.engine.stats();
  const double seconds = session_.engine.now();
  return fmt::format(
             "\n{}: {} request{}, {} tokens in {:.2f} s, {:.1f} tokens/s on {}; {} steps, {} "
             "requests per step (at most {}){}\n",
             stage_name(session_.options.stage), results.size(), results.size() == 1 ? "" : "s",
             total.emitted, seconds, static_cast<double>(total.emitted) / seconds,
             session_.target.backend->name(), stats.steps, ratio(stats.rounds, stats.steps),
             stats.peak_rounds, inflation_note(session_.options)) +
         about_acceptance(total, stats) + about_latency(results) + about_pages(session_.engine) +
         session_.extras.summary + session_.draft.outgrown(longest_text(results));
}

Json BatchReport::trace_json() const {
  const RunOptions& options = session_.options;
  Json steps = Json::array(), requests = Json::array();
  for (const StepReport& step : steps_) steps.push_back(to_json(step));
  for (const auto& [id, place] : places_) {
    if (!results_[place]) continue;
    const RequestResult& result = *results_[place];
    requests.push_back({{"request", id},
                        {"id", requests_[place].id},
                        {"prompt_tokens", result.prompt_tokens},
                        {"prompt_ids", requests_[place].generation.prompt},
                        {"tokens", result.tokens},
                        {"finish_reason", finish_reason_name(result.finish_reason)},
                        {"stats", to_json(result.stats)}});
  }
  Json json = {{"format", "specdec-batch-trace-1"},
               {"stage", stage_name(options.stage)},
               {"target", options.target},
               {"draft", session_.draft.to_json()},
               {"requests", requests},
               {"steps", steps},
               {"engine", to_json(session_.engine)}};
  if (!options.inflate_target.empty()) json["inflated_target"] = options.inflate_target;
  return json;
}

int BatchReport::finish() {
  clear_progress();
  if (!text_ || !session_.options.report.empty()) write_line(summary_json().dump());
  if (people_) say_text(summary());
  say_advice_not_taken(session_.options, std::ranges::any_of(requests_, &BatchRequest::is_chat));
  const RunOptions& options = session_.options;
  if (!options.report.empty()) write_file(options.report, lines_);
  if (!options.trace.empty()) write_file(options.trace, trace_json().dump() + "\n");
  return failed_ > 0 ? kBadInput : kGood;
}

}  // namespace specdec
