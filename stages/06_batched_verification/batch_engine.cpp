#include "stages/06_batched_verification/batch_engine.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "common/run_stats.h"
#include "common/speculation/count_round.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

std::function<double()> real_time() {
  using Clock = std::chrono::steady_clock;
  return [start = Clock::now()] {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
}

EngineOptions checked(EngineOptions options, const Drafter& drafter) {
  const int rows_of_one = drafter.capacity(options.spec_length).rows();
  const int rows = options.max_batch * rows_of_one;
  SPECDEC_CHECK(options.max_batch > 0 && options.spec_length >= 0 && options.prefill_chunk > 0,
                "positive options");
  if (options.token_budget < rows) {
    fail("--token-budget {}: a round of {} requests with {} drafts each takes {} rows",
         options.token_budget, options.max_batch, rows_of_one - 1, rows);
  }
  if (!options.clock) options.clock = real_time();
  return options;
}

}  // namespace

BatchEngine::BatchEngine(const ServedModels& models, EngineOptions options)
    : models_(models),
      options_(checked(std::move(options), models.drafter)),
      target_pool_(&models.target_cache, options_.prefix_cache, options_.check_invariants),
      draft_pool_(models.draft_cache, options_.prefix_cache, options_.check_invariants),
      own_rounds_(models.make_rounds(models.target, models.drafter, models.judging,
                                     options_.max_batch, options_.spec_length)),
      rounds_(*own_rounds_),
      scratch_(
          std::make_shared<JudgingScratch>(rounds_.most_rows() - 1, models.target.vocab_size())),
      scheduler_({options_.max_batch, options_.token_budget, options_.prefill_chunk}, models.target,
                 rounds_, target_pool_, draft_pool_) {
  stats_.by_batch_size.resize(static_cast<std::size_t>(options_.max_batch) + 1);
}

BatchEngine::~BatchEngine() {
  for (auto& [id, state] : states_) scheduler_.remove(*state);
}

// ---- requests

RequestId BatchEngine::add_request(BatchRequest request, OnDelivery on_delivery) {
  if (request.context_limit == 0) request.context_limit = models_.target.max_seq_len();
  check_request(request);
  check_fits(request);
  const RequestId id = next_id_;
  auto state = std::make_unique<RequestState>(
      id, std::move(request), std::move(on_delivery), models_.tokenizer,
      [this](RandomSource& dice, const SpeculationOptions& options) {
        return rounds_.judging().make_judge(models_.target.backend(), dice, options, scratch_);
      });
  SPECDEC_CHECK(state->policy->largest() <= state->request.spec_length, "K of at most {}, not {}",
                state->request.spec_length, state->policy->largest());
  const double arrival = state->request.arrival;
  state->stats.arrived = std::isnan(arrival) ? now() : arrival;
  scheduler_.enqueue(*state);
  states_.emplace(id, std::move(state));
  return next_id_++;
}

// [snippet cancel]
bool BatchEngine::cancel(RequestId id) {
  // [task 6.10: cancel a request]
  const auto found = states_.find(id);
  if (found == states_.end() || finished_.contains(id)) return false;
  if (!found->second->cancelled) {
    found->second->cancelled = true;  // from now on, no token of it is delivered
    cancelled_.push_back(id);         // the next step gives its pages back
  }
  return true;
  // [end task 6.10]
}
// [end snippet cancel]

RequestResult BatchEngine::take_result(RequestId id) {
  auto node = results_.extract(id);
  SPECDEC_CHECK(!node.empty(), "request {} to be finished", id);
  return std::move(node.mapped());
}

std::vector<const RequestState*> BatchEngine::requests() const {
  std::vector<const RequestState*> result;
  for (const auto& [id, state] : states_) result.push_back(state.get());
  return result;
}

void BatchEngine::forget_prefixes() {
  target_pool_.clear_prefixes();
  draft_pool_.clear_prefixes();
}

// ---- a step

// [snippet step]
const StepReport& BatchEngine::step() {
  SPECDEC_CHECK(!in_step_, "no call of step() by a callback");
  in_step_ = true;
  draft_forwards_before_ = rounds_.draft_forwards();
  report_ = {.step = ++stats_.steps, .started = now()};
  drop_cancelled();
  try {
    const StepPlan& plan = scheduler_.plan(steps_given_up_ == 0);  // what each request computes
    note_admissions();
    rounds_.draft(plan.rounds);  // K steps of the drafter, for all requests at once
    rounds_.prefill_drafts(plan.prefills);
    report_.drafted = now();
    rounds_.verify(plan.rounds, plan.prefills);  // one ragged pass of the target
    report_.verified = now();
    rounds_.judge(plan.rounds);                     // each by its own options and draws
    settle(plan);                                   // roll back, finish requests that are done
    if (report_.rounds() > 0) steps_given_up_ = 0;  // prefills alone do not show that rounds fit
  } catch (const CacheFull& full) {
    give_up(full);
  } catch (...) {
    rounds_.undo_draft(scheduler_.last_plan().rounds);
    in_step_ = false;
    throw;
  }
  deliver();
  close_report();
  in_step_ = false;
  if (options_.check_invariants) check_invariants();
  return report_;
}
// [end snippet step]

void BatchEngine::drop_cancelled() {
  for (const RequestId id : std::exchange(cancelled_, {})) {
    if (const auto found = states_.find(id); found != states_.end()) {
      finish(*found->second, FinishReason::kCancelled);
    }
  }
}

// A cache was full despite the plan, and nothing was verified. Preempts the youngest request; if
// the last request left fails again, ends it with an error.
void BatchEngine::give_up(const CacheFull& full) {
  rounds_.undo_draft(scheduler_.last_plan().rounds);
  if (report_.admitted.empty()) note_admissions();  // plan() itself threw
  report_.given_up = true;
  report_.drafted = report_.verified = now();
  stats_.steps_given_up++;
  steps_given_up_++;
  const auto admitted = scheduler_.admitted();
  if (steps_given_up_ > 1 && admitted.size() <= 1) {
    RequestState& r = admitted.empty() ? *scheduler_.waiting().front() : *admitted.front();
    r.failure = full.what();
    finish(r, FinishReason::kError);
    steps_given_up_ = 0;
  } else if (!admitted.empty()) {
    scheduler_.preempt_youngest();
  }
}

void BatchEngine::note_admissions() {
  for (const RequestId id : scheduler_.last_plan().admitted) {
    RequestState& r = *states_.at(id);
    const int found = models_.target.length(r.sequence);
    report_.admitted.push_back({id, found});
    stats_.admissions++;
    stats_.admissions_with_prefix += found > 0 ? 1 : 0;
    stats_.prompt_tokens += r.prompt_tokens();
    stats_.prefix_tokens += found;
    if (!std::isnan(r.stats.admitted)) continue;  // readmitted after a preemption
    r.stats.admitted = report_.started;
    r.stats.prefix_tokens = found;
  }
}

// The pass is done: record results, roll back, finish requests that are done.
void BatchEngine::settle(const StepPlan& plan) {
  target_pool_.note_peak();
  draft_pool_.note_peak();
  report_.most_pages = target_pool_.n_used();
  report_.most_draft_pages = draft_pool_.n_used();
  for (RequestState* r : plan.rounds) settle_round(*r);
  for (const Prefill& prefill : plan.prefills) settle_prefill(prefill);
  if (report_.rows() > 0) stats_.target_forwards++;
}

// [snippet settle-round]
void BatchEngine::settle_round(RequestState& r) {
  const int rows = rounds_.pass().rows(r);
  if (rows == 0) return finish(r, FinishReason::kError);  // drafting failed: no rows in the pass
  if (!r.failure && r.draft_sequence != RequestState::kNoSequence) {
    draft_pool_.keep_prefix(r.draft_sequence, r.request.generation.prompt);
  }
  StepReport::Part part{.id = r.id, .rows = rows, .round = r.round, .emitted = count(r, rows)};
  // [task 6.7: settle a round]
  if (r.failure) {
    finish(r, FinishReason::kError);
  } else if (r.generation.finished()) {
    finish(r, r.generation.finish_reason());
  } else {
    rounds_.roll_back(r);
    part.length = models_.target.length(r.sequence);
  }
  // [end task 6.7]
  report_.parts.push_back(part);
}
// [end snippet settle-round]

// Counts the request's round of this many rows. Returns the number of emitted tokens.
int BatchEngine::count(RequestState& r, int rows) {
  RequestStats& stats = r.stats;
  if (stats.run.rounds == 0) stats.first_round = report_.started;
  if (!r.failure || r.round.accepted > 0) count_round(stats.run, r.round);
  stats.run.draft_forwards +=
      std::min<std::int64_t>(r.round.drafted, rounds_.draft_forwards() - draft_forwards_before_);
  stats.run.target_rows += rows;
  stats.steps++;
  stats_.rounds++;
  stats_.round_rows += rows;
  const auto emitted = int_size(r.new_tokens());
  stats_.emitted += emitted;
  return emitted;
}

void BatchEngine::settle_prefill(const Prefill& prefill) {
  RequestState& r = *prefill.request;
  const int length = models_.target.length(r.sequence);
  target_pool_.keep_prefix(r.sequence, r.request.generation.prompt);
  if (prefill.draft_tokens > 0) {
    draft_pool_.keep_prefix(r.draft_sequence, r.request.generation.prompt);
  }
  if (rounds_.is_prefilled(r)) r.phase = Phase::kRunning;
  r.stats.run.target_rows += prefill.tokens;
  r.stats.steps++;
  stats_.prefill_rows += prefill.tokens;
  stats_.draft_prefill_rows += prefill.draft_tokens;
  report_.parts.push_back({.id = r.id,
                           .prefilled = prefill.tokens,
                           .draft_prefilled = prefill.draft_tokens,
                           .rows = prefill.tokens,
                           .length = length});
}

// Frees the request's pages. deliver() reports its end at the end of the step.
void BatchEngine::finish(RequestState& r, FinishReason reason) {
  if (r.phase == Phase::kFinished) return;
  scheduler_.remove(r);
  r.phase = Phase::kFinished;
  finished_.emplace(r.id, reason);
  report_.finished.push_back(r.id);
}

// ---- delivery

// Makes the callbacks, after all other work of the step, so that the engine is consistent for them.
void BatchEngine::deliver() {
  report_.ended = now();
  std::set<RequestId> due;
  for (const auto& [id, reason] : finished_) due.insert(id);
  for (const StepReport::Part& part : report_.parts) {
    if (part.emitted > 0) due.insert(part.id);
  }
  for (const RequestId id : due) hand_over(*states_.at(id));
  for (const auto& [id, reason] : finished_) {
    results_.emplace(id, result_of(*states_.at(id), reason));
    states_.erase(id);
  }
  finished_.clear();
}

// [snippet news-for]
// What the request is told after this step. None: nothing.
std::optional<Delivery> BatchEngine::news_for(const RequestState& r) const {
  // [task 6.9: tell a request what is new]
  Delivery delivery{.id = r.id, .finished = r.phase == Phase::kFinished};
  // A cancelled request, even if a callback of this step cancelled it, is told of its end only.
  if (r.cancelled && !delivery.finished) return std::nullopt;
  if (!r.cancelled) {
    delivery.tokens = r.new_tokens();
    delivery.text = r.new_text();
  }
  if (delivery.finished) delivery.finish_reason = finished_.at(r.id);
  if (r.failure) delivery.error = *r.failure;
  return delivery;
  // [end task 6.9]
}
// [end snippet news-for]

void BatchEngine::hand_over(RequestState& r) {
  if (!r.cancelled && !r.new_tokens().empty()) note_times(r);
  const auto news = r.on_delivery ? news_for(r) : std::nullopt;
  try {
    if (news) r.on_delivery(*news);
  } catch (const std::exception& error) {
    r.failure = fmt::format("its callback threw: {}", error.what());
  } catch (...) {
    r.failure = "its callback threw";
  }
  r.delivered = r.generation.tokens().size();
  r.delivered_text = r.generation.certain_text().size();
  if (!r.failure) return;
  finish(r, FinishReason::kError);
  finished_.at(r.id) = FinishReason::kError;  // even if it had finished for another reason
}

void BatchEngine::note_times(RequestState& r) {
  RequestStats& stats = r.stats;
  if (std::isnan(stats.first_token)) {
    stats.first_token = report_.ended;
  } else {
    stats.longest_gap = std::max(stats.longest_gap, report_.ended - stats.last_token);
  }
  stats.last_token = report_.ended;
}

RequestResult BatchEngine::result_of(RequestState& r, FinishReason reason) const {
  RequestStats& stats = r.stats;
  stats.finished = report_.ended;
  if (stats.run.rounds > 0) {
    stats.run.prefill_seconds = stats.first_round - stats.admitted;
    stats.run.decode_seconds = stats.finished - stats.first_round;
  }
  const auto tokens = r.generation.tokens();
  return {.id = r.id,
          .prompt_tokens = r.prompt_tokens(),
          .tokens = {tokens.begin(), tokens.end()},
          .text = r.generation.text(),
          .finish_reason = reason,
          .error = r.failure.value_or(""),
          .stats = stats,
          .extension = r.extension};
}

void BatchEngine::close_report() {
  StepReport& report = report_;
  report.preempted = scheduler_.last_plan().preempted;
  stats_.preemptions += std::ssize(report.preempted);
  report.waiting = int_size(scheduler_.waiting());
  for (const RequestState* r : scheduler_.admitted()) {
    (r->phase == Phase::kRunning ? report.running : report.prefilling)++;
  }
  report.pages = target_pool_.n_used();
  report.draft_pages = draft_pool_.n_used();
  stats_.draft_seconds += report.drafted - report.started;
  stats_.verify_seconds += report.verified - report.drafted;
  stats_.peak_waiting = std::max(stats_.peak_waiting, report.waiting);
  const int rounds = report.rounds();
  stats_.peak_rounds = std::max(stats_.peak_rounds, rounds);
  if (rounds == 0 || rounds < std::ssize(report.parts)) return;
  EngineStats::BatchSize& size = stats_.by_batch_size[rounds];
  size.steps++;
  size.rows += report.rows();
  size.emitted += report.emitted();
  size.seconds += report.ended - report.started;
  size.draft_seconds += report.drafted - report.started;
  size.verify_seconds += report.verified - report.drafted;
}

}  // namespace specdec
