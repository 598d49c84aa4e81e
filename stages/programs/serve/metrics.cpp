#include "stages/programs/serve/metrics.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

namespace specdec {
namespace {

constexpr double kSeconds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                               0.5,   1,      2.5,   5,    10,    30,   60,  120};
constexpr double kPerToken[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                0.05,   0.1,   0.25,   0.5,   1,    2.5};
constexpr double kCounts[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};

constexpr std::string_view kPrefix = "specdec:";

// The text of one scrape.
class Page {
 public:
  explicit Page(std::string_view model)
      : labels_(fmt::format("model_name=\"{}\"", escaped(model))) {}

  void counter(std::string_view name, std::string_view help, std::int64_t value) {
    head(name, help, "counter");
    line(name, "", static_cast<double>(value));
  }
  void gauge(std::string_view name, std::string_view help, double value) {
    head(name, help, "gauge");
    line(name, "", value);
  }
  void histogram(std::string_view name, std::string_view help, const Histogram& values) {
    head(name, help, "histogram");
    text_ += values.to_text(fmt::format("{}{}", kPrefix, name), labels_);
  }
  void head(std::string_view name, std::string_view help, std::string_view type) {
    text_ += fmt::format("# HELP {0}{1} {2}\n# TYPE {0}{1} {3}\n", kPrefix, name, help, type);
  }
  // more: labels beside the model's, each with a comma before it.
  void line(std::string_view name, std::string_view more, double value) {
    text_ += fmt::format("{}{}{{{}{}}} {}\n", kPrefix, name, labels_, more, value);
  }

  const std::string& text() const { return text_; }

 private:
  static std::string escaped(std::string_view value) {
    std::string result;
    for (const char c : value) {
      if (c == '\\' || c == '"') result += '\\';
      result += c == '\n' ? ' ' : c;
    }
    return result;
  }

  std::string labels_, text_;
};

}  // namespace

void Histogram::add(double value) {
  if (std::isnan(value)) return;
  counts_[std::ranges::lower_bound(bounds_, value) - bounds_.begin()]++;
  sum_ += value;
}

std::string Histogram::to_text(std::string_view name, std::string_view labels) const {
  std::string text;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < counts_.size(); i++) {
    total += counts_[i];
    const std::string bound = i < bounds_.size() ? fmt::format("{}", bounds_[i]) : "+Inf";
    text += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bound, total);
  }
  return text +
         fmt::format("{0}_sum{{{1}}} {2}\n{0}_count{{{1}}} {3}\n", name, labels, sum_, total);
}

Metrics::Metrics()
    : first_token_(kSeconds),
      per_token_(kPerToken),
      queue_(kSeconds),
      whole_(kSeconds),
      batch_(kCounts),
      step_tokens_(kCounts) {}

void Metrics::count(const StepReport& report) {
  for (const StepReport::Part& part : report.parts) {
    if (!part.is_round()) continue;
    const Round& round = part.round;
    rounds++;
    drafted_rounds += round.drafted > 0 ? 1 : 0;
    drafted += round.counted();
    tested += round.tested();
    accepted += round.accepted;
    if (std::ssize(accepted_at) < round.accepted) accepted_at.resize(round.accepted);
    for (int i = 0; i < round.accepted; i++) accepted_at[i]++;
  }
  for (const StepReport::Admission& admission : report.admitted) prefix_tokens += admission.found;
  tokens += report.emitted();
  passes += report.rows() > 0 ? 1 : 0;
  preemptions += std::ssize(report.preempted);
  running = report.running;
  waiting = report.waiting;
  prefilling = report.prefilling;
  pages = report.pages;
  draft_pages = report.draft_pages;
  if (report.rounds() > 0) batch_.add(report.rounds());
  if (report.rows() > 0) step_tokens_.add(report.rows());
}

void Metrics::count(const RequestResult& result) {
  const RequestStats& stats = result.stats;
  finished[std::string(finish_reason_name(result.finish_reason))]++;
  prompt_tokens += result.prompt_tokens;
  first_token_.add(stats.time_to_first_token());
  per_token_.add(stats.time_per_output_token());
  queue_.add(stats.admitted - stats.arrived);
  whole_.add(stats.finished - stats.arrived);
}

std::int64_t Metrics::requests() const {
  std::int64_t sum = 0;
  for (const auto& [reason, n] : finished) sum += n;
  return sum;
}

std::string Metrics::to_text(std::string_view model) const {
  Page page(model);
  page.counter("spec_decode_num_drafts_total", "Rounds that drafted.", drafted_rounds);
  page.counter("spec_decode_num_draft_tokens_total", "Drafted tokens.", drafted);
  page.counter("spec_decode_num_accepted_tokens_total", "Accepted drafts.", accepted);
  constexpr std::string_view kPerPosition = "spec_decode_num_accepted_tokens_per_pos_total";
  page.head(kPerPosition, "Accepted drafts by their position in the round.", "counter");
  for (std::size_t i = 0; i < accepted_at.size(); i++) {
    page.line(kPerPosition, fmt::format(",position=\"{}\"", i),
              static_cast<double>(accepted_at[i]));
  }
  page.counter("spec_decode_num_tested_tokens_total", "Drafts that were tested.", tested);
  page.counter("num_rounds_total", "Rounds, with drafts or without.", rounds);
  page.counter("num_target_passes_total", "Passes of the target.", passes);
  page.counter("prompt_tokens_total", "Tokens of the prompts of finished requests.", prompt_tokens);
  page.counter("generation_tokens_total", "Generated tokens.", tokens);
  page.counter("prefix_cache_hits_total", "Tokens found in the prefix cache.", prefix_tokens);
  page.counter("num_preemptions_total", "Requests that lost their pages.", preemptions);
  page.head("request_success_total", "Finished requests.", "counter");
  for (const auto& [reason, n] : finished) {
    page.line("request_success_total", fmt::format(",finished_reason=\"{}\"", reason),
              static_cast<double>(n));
  }
  page.counter("request_refused_total", "Requests that the engine refused.", refused);
  page.gauge("num_requests_running", "Requests that decode.", running);
  page.gauge("num_requests_prefilling", "Requests whose prompt is being read.", prefilling);
  page.gauge("num_requests_waiting", "Requests in the queue.", waiting);
  page.gauge("kv_cache_usage_perc", "Share of the target's pages in use, 0 to 1.",
             all_pages > 0 ? static_cast<double>(pages) / all_pages : 0);
  page.gauge("kv_cache_pages", "Pages of the target in use.", pages);
  page.gauge("draft_kv_cache_pages", "Pages of the draft in use.", draft_pages);
  page.histogram("time_to_first_token_seconds", "From a request's arrival.", first_token_);
  page.histogram("time_per_output_token_seconds", "After the first one.", per_token_);
  page.histogram("request_queue_time_seconds", "From arrival to admission.", queue_);
  page.histogram("e2e_request_latency_seconds", "From arrival to the end.", whole_);
  page.histogram("batch_size", "Rounds per step.", batch_);
  page.histogram("iteration_tokens_total", "Rows per pass of the target.", step_tokens_);
  return page.text();
}

}  // namespace specdec
