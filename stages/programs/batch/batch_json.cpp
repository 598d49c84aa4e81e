#include "stages/programs/batch/batch_json.h"

#include <algorithm>
#include <cmath>

#include "common/base/json_value.h"
#include "common/run_stats.h"
#include "stages/programs/show/report.h"

namespace specdec {
namespace {

void add(std::vector<std::int64_t>& sums, const std::vector<std::int64_t>& more) {
  if (sums.size() < more.size()) sums.resize(more.size());
  for (std::size_t i = 0; i < more.size(); i++) sums[i] += more[i];
}

Json pool_json(const KvPool& pool) {
  if (pool.cache() == nullptr) return nullptr;
  Json json = {{"page_size", pool.cache()->page_size()},
               {"pages", pool.n_pages()},
               {"peak", pool.peak_used()}};
  if (const PrefixCache* prefixes = pool.prefixes()) {
    const PrefixCacheStats& stats = prefixes->stats();
    json["prefix_cache"] = {
        {"lookups", stats.lookups},           {"hits", stats.hits},
        {"tokens_asked", stats.tokens_asked}, {"tokens_found", stats.tokens_found},
        {"pages_added", stats.pages_added},   {"pages_evicted", stats.pages_evicted}};
  }
  return json;
}

}  // namespace

RunStats total_stats(std::span<const RequestResult> results) {
  RunStats total;
  for (const RequestResult& result : results) {
    const RunStats& run = result.stats.run;
    for (auto counter :
         {&RunStats::rounds, &RunStats::target_forwards, &RunStats::draft_forwards,
          &RunStats::counted, &RunStats::tested, &RunStats::accepted, &RunStats::emitted,
          &RunStats::drafted, &RunStats::drafted_rounds, &RunStats::target_rows}) {
      total.*counter += run.*counter;
    }
    total.sum_round_acceptance += run.sum_round_acceptance;
    total.sum_acceptance_prob += run.sum_acceptance_prob;
    add(total.accepted_at, run.accepted_at);
    add(total.drafted_at, run.drafted_at);
    add(total.rounds_by_drafted, run.rounds_by_drafted);
  }
  return total;
}

Json to_json(const RequestStats& stats) {
  Json json = to_json(stats.run);
  for (const char* name :
       {"draft_seconds", "verify_seconds", "target_weight_bytes", "cache_bytes"}) {
    json.erase(name);  // the requests of a batch share them
  }
  json.update({{"arrived", number_or_null(stats.arrived)},
               {"queue_seconds", number_or_null(stats.admitted - stats.arrived)},
               {"time_to_first_token", number_or_null(stats.time_to_first_token())},
               {"time_per_output_token", number_or_null(stats.time_per_output_token())},
               {"longest_gap", stats.longest_gap},
               {"finished", number_or_null(stats.finished)},
               {"steps", stats.steps},
               {"preemptions", stats.preemptions},
               {"prefix_tokens", stats.prefix_tokens}});
  return json;
}

Json to_json(const BatchEngine& engine) {
  const EngineStats& stats = engine.stats();
  Json sizes = Json::array();
  for (std::size_t b = 1; b < stats.by_batch_size.size(); b++) {
    const EngineStats::BatchSize& size = stats.by_batch_size[b];
    if (size.steps == 0) continue;
    sizes.push_back({{"requests", b},
                     {"steps", size.steps},
                     {"rows", size.rows},
                     {"emitted", size.emitted},
                     {"seconds", size.seconds},
                     {"draft_seconds", size.draft_seconds},
                     {"verify_seconds", size.verify_seconds}});
  }
  return {{"steps", stats.steps},
          {"target_forwards", stats.target_forwards},
          {"prefill_rows", stats.prefill_rows},
          {"draft_prefill_rows", stats.draft_prefill_rows},
          {"round_rows", stats.round_rows},
          {"rounds", stats.rounds},
          {"preemptions", stats.preemptions},
          {"admissions", stats.admissions},
          {"admissions_with_prefix", stats.admissions_with_prefix},
          {"prompt_tokens", stats.prompt_tokens},
          {"prefix_tokens", stats.prefix_tokens},
          {"peak_waiting", stats.peak_waiting},
          {"peak_rounds", stats.peak_rounds},
          {"decode_steps_by_batch_size", sizes},
          {"target_pool", pool_json(engine.target_pool())},
          {"draft_pool", pool_json(engine.draft_pool())},
          {"max_batch", engine.options().max_batch},
          {"spec_length", engine.options().spec_length},
          {"token_budget", engine.options().token_budget},
          {"prefill_chunk", engine.options().prefill_chunk}};
}

Json distribution(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return nullptr;
  double sum = 0;
  for (const double value : values) sum += value;
  return {{"mean", sum / static_cast<double>(values.size())},
          {"p50", quantile(values, 0.5)},
          {"p95", quantile(values, 0.95)},
          {"max", std::ranges::max(values)}};
}

Json to_json(const StepReport& report) {
  Json admitted = Json::array();
  for (const StepReport::Admission& admission : report.admitted) {
    admitted.push_back({{"request", admission.id}, {"found", admission.found}});
  }
  Json rounds = Json::array(), prefills = Json::array();
  for (const StepReport::Part& part : report.parts) {
    if (!part.is_round()) {
      prefills.push_back({{"request", part.id},
                          {"tokens", part.prefilled},
                          {"draft_tokens", part.draft_prefilled}});
    } else {
      rounds.push_back({{"request", part.id},
                        {"start", part.round.start},
                        {"drafted", part.round.drafted},
                        {"accepted", part.round.accepted},
                        {"emitted", part.emitted}});
    }
  }
  return {{"step", report.step},
          {"started", report.started},
          {"drafted", report.drafted},
          {"verified", report.verified},
          {"ended", report.ended},
          {"rounds", rounds},
          {"prefills", prefills},
          {"admitted", admitted},
          {"preempted", report.preempted},
          {"finished", report.finished},
          {"waiting", report.waiting},
          {"pages", report.pages},
          {"most_pages", report.most_pages},
          {"draft_pages", report.draft_pages},
          {"most_draft_pages", report.most_draft_pages}};
}

}  // namespace specdec
