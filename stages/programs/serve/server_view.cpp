#include "stages/programs/serve/server_view.h"

#include <cmath>
#include <limits>
#include <utility>

#include "common/speculation/paper_formulas.h"
#include "kernels/int_size.h"
#include "stages/03_paged_kv_cache/page_allocator.h"
#include "stages/programs/show/report.h"
#include "stages/programs/speculation/timing.h"

namespace specdec {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kSamples = 32;
constexpr double kWindow = 3, kGrain = 0.1;  // seconds

double median_of(const std::deque<double>& samples) {
  return samples.empty() ? kUnknown : median({samples.begin(), samples.end()});
}

Json pool_json(int used, int total) {
  if (total == 0) return nullptr;
  return {{"used", used}, {"total", total}};
}

Json request_json(const ServerView::Request& r) {
  return {{"id", r.id},
          {"state", r.state},
          {"prompt_tokens", r.prompt_tokens},
          {"tokens", r.tokens},
          {"rounds", r.rounds},
          {"drafted", r.drafted},
          {"accepted", r.accepted},
          {"pages", r.pages}};
}

Json speed_json(const ServerView& view) {
  const Metrics& m = view.metrics;
  const double alpha = share(static_cast<double>(m.accepted), static_cast<double>(m.tested));
  double predicted = kUnknown;
  if (std::isfinite(alpha) && view.spec_length > 0) {
    predicted = expected_emitted(alpha, view.spec_length) / (view.spec_length * view.c + view.v);
  }
  return {{"alpha", number_or_null(alpha)},
          {"tokens_per_pass",
           number_or_null(share(static_cast<double>(m.tokens), static_cast<double>(m.rounds)))},
          {"c", number_or_null(view.c)},
          {"v", number_or_null(view.v)},
          {"predicted_speedup", number_or_null(predicted)}};
}

}  // namespace

void CostWatch::keep(std::deque<double>& samples, double seconds) {
  samples.push_back(seconds);
  if (samples.size() > kSamples) samples.pop_front();
}

void CostWatch::add(const StepReport& report) {
  if (report.parts.size() != 1 || !report.parts.front().is_round()) return;
  const int K = report.parts.front().round.drafted;
  const double verify = report.verified - report.drafted;
  if (K == 0) keep(plain_, verify);
  if (K == 0 || K != spec_length_) return;
  keep(draft_step_, (report.drafted - report.started) / K);
  keep(verification_, verify);
}

double CostWatch::c() const { return median_of(draft_step_) / median_of(plain_); }
double CostWatch::v() const { return median_of(verification_) / median_of(plain_); }

void RateWatch::add(double now, int tokens) {
  if (samples_.empty() || now - samples_.back().time > kGrain) samples_.push_back({now, 0});
  samples_.back().tokens += tokens;
  while (now - samples_.front().time > kWindow) samples_.pop_front();
}

double RateWatch::per_second(double now) const {
  std::int64_t tokens = 0;
  for (const Sample& sample : samples_) {
    if (now - sample.time <= kWindow) tokens += sample.tokens;
  }
  return static_cast<double>(tokens) / kWindow;
}

std::vector<ServerView::Request> requests_of(const BatchEngine& engine) {
  std::vector<ServerView::Request> requests;
  const ServedModels& models = engine.models();
  for (const RequestState* r : engine.requests()) {
    const bool cached = r->sequence != RequestState::kNoSequence;
    const int length = cached ? models.target.length(r->sequence) : 0;
    const RunStats& run = r->stats.run;
    requests.push_back({.id = r->request.id,
                        .state = phase_name(r->phase),
                        .prompt_tokens = r->prompt_tokens(),
                        .tokens = int_size(r->generation.tokens()),
                        .pages = pages_for(length, models.target_cache.page_size()),
                        .rounds = run.rounds,
                        .drafted = run.counted,
                        .accepted = run.accepted});
  }
  return requests;
}

Json to_json(const ServerView& view, double now) {
  const Metrics& m = view.metrics;
  Json requests = Json::array();
  for (const ServerView::Request& request : view.requests) {
    requests.push_back(request_json(request));
  }
  return {{"requests", std::move(requests)},
          {"batch", {{"running", m.running}, {"waiting", m.waiting}, {"prefilling", m.prefilling}}},
          {"pages", pool_json(m.pages, m.all_pages)},
          {"draft_pages", pool_json(m.draft_pages, m.all_draft_pages)},
          {"totals",
           {{"requests", m.requests()},
            {"tokens", m.tokens},
            {"rounds", m.rounds},
            {"drafted", m.drafted},
            {"accepted", m.accepted},
            {"passes", m.passes},
            {"tokens_per_second", view.rate.per_second(now)}}},
          {"speed", speed_json(view)}};
}

}  // namespace specdec
