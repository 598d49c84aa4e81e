#include "stages/06_batched_verification/scheduler.h"

#include <algorithm>

#include "common/base/check.h"

namespace specdec {

void StepPlan::clear() {
  rounds.clear();
  prefills.clear();
  admitted.clear();
  preempted.clear();
}

Scheduler::Scheduler(const Options& options, LanguageModel& target, BatchedRounds& rounds,
                     KvPool& target_pool, KvPool& draft_pool)
    : options_(options),
      target_(target),
      rounds_(rounds),
      target_pool_(target_pool),
      draft_pool_(draft_pool) {}

// [snippet plan]
const StepPlan& Scheduler::plan(bool may_admit) {
  plan_.clear();
  planned_ = {};
  int rows = options_.token_budget;
  plan_admitted(rows);
  // A request that was just preempted must not be admitted again in the same step.
  if (plan_.preempted.empty() && (may_admit || admitted_.empty())) admit(rows);
  SPECDEC_CHECK(!admitted_.empty() || waiting_.empty(), "no request to wait for an empty engine");
  return plan_;
}

// Plans the oldest request first. A request that lacks pages takes them from the youngest, so
// admitted_ may shrink in the loop. Requests that are already planned are older, so they stay.
void Scheduler::plan_admitted(int& rows) {
  for (const RequestState* r : admitted_) {
    if (r->phase == Phase::kRunning) rows -= rounds_.needs(*r).rows();
  }
  for (std::size_t i = 0; i < admitted_.size(); i++) {
    // [task 6.5: plan a step]
    RequestState& r = *admitted_[i];
    if (r.phase == Phase::kRunning) {
      open_draft(r);
      if (reserve(r, pages_for_round(r))) plan_.rounds.push_back(&r);
    } else {
      const Prefill chunk = next_chunk(r, rows);
      if (chunk.rows() > 0 && reserve(r, pages_for(chunk))) {
        plan_.prefills.push_back(chunk);
        rows -= chunk.rows();
      }
    }
    // [end task 6.5]
  }
}

// What target and draft model compute of the request's context in a step that has this many rows
// left. The two differ if one of them found a longer prefix in its cache.
Prefill Scheduler::next_chunk(RequestState& r, int rows) const {
  const int most = std::min(options_.prefill_chunk, rows);
  return {&r, std::min(most, r.prefill_end() - target_.length(r.sequence)),
          std::min(most, rounds_.draft_prefill_left(r))};
}

bool Scheduler::reserve(RequestState& r, const Pages& pages) {
  const Pages wanted = {planned_.target + pages.target, planned_.draft + pages.draft};
  while (!make_room(wanted)) {
    SPECDEC_CHECK(admitted_.size() > 1, "request {} to fit alone", r.id);
    const bool is_youngest = admitted_.back() == &r;
    preempt_youngest();
    if (is_youngest) return false;
  }
  planned_ = wanted;
  return true;
}
// [end snippet plan]

// The pages that the request's next round needs from both pools, including the rest of its prefill.
Scheduler::Pages Scheduler::pages_for_round(const RequestState& r) const {
  const int start = r.prefill_end();
  const Capacity round = rounds_.needs(r);
  Pages pages;
  pages.target = target_pool_.growth(target_.length(r.sequence), start + round.rows());
  if (round.nodes > 0) {
    const bool has_drafted = r.draft_sequence != RequestState::kNoSequence;
    const int length = has_drafted ? rounds_.drafter().length(r.draft_sequence) : KvPool::kNone;
    pages.draft = draft_pool_.growth(length, start + round.nodes);
  }
  return pages;
}

// The new pages of a chunk.
Scheduler::Pages Scheduler::pages_for(const Prefill& chunk) const {
  const RequestState& r = *chunk.request;
  const int length = target_.length(r.sequence);
  Pages pages{target_pool_.growth(length, length + chunk.tokens), 0};
  if (chunk.draft_tokens > 0) {
    const int drafted = rounds_.drafter().length(r.draft_sequence);
    pages.draft = draft_pool_.growth(drafted, drafted + chunk.draft_tokens);
  }
  return pages;
}

bool Scheduler::make_room(const Pages& pages) {
  return target_pool_.make_room(pages.target) && draft_pool_.make_room(pages.draft);
}

// [snippet admit]
void Scheduler::admit(int& rows) {
  while (!waiting_.empty() && std::ssize(admitted_) < options_.max_batch && rows > 0) {
    RequestState& r = *waiting_.front();
    if (!has_rows(r) || !open(r)) return;
    waiting_.pop_front();
    admitted_.push_back(&r);
    plan_.admitted.push_back(r.id);
    open_draft(r);
    r.phase = rounds_.is_prefilled(r) ? Phase::kRunning : Phase::kPrefilling;
    if (r.phase == Phase::kPrefilling) {
      plan_.prefills.push_back(next_chunk(r, rows));
      rows -= plan_.prefills.back().rows();
    } else if (rounds_.needs(r).rows() <= rows) {  // else its first round is in the next step
      plan_.rounds.push_back(&r);
      rows -= rounds_.needs(r).rows();
    }
  }
}

// Whether a pass has rows for a round of this request and of all admitted ones.
bool Scheduler::has_rows(const RequestState& r) const {
  int rows = rounds_.most_rows(r);
  for (const RequestState* other : admitted_) rows += rounds_.most_rows(*other);
  return rows <= options_.token_budget;
}

// Creates the request's sequence if its first round and the next rounds of all admitted ones fit.
bool Scheduler::open(RequestState& r) {
  // [task 6.4: admit the requests that fit]
  if (!target_pool_.has_room_for_a_sequence()) return false;
  r.sequence = target_pool_.create(r.context, [&] { return target_.create(); });
  Pages pages = pages_for_round(r);
  for (const RequestState* other : admitted_) {
    const Pages more = pages_for_round(*other);
    pages = {pages.target + more.target, pages.draft + more.draft};
  }
  if (make_room(pages)) return true;
  close(r);
  return false;
  // [end task 6.4]
}
// [end snippet admit]

// Creates the request's draft sequence if its next round drafts.
void Scheduler::open_draft(RequestState& r) {
  if (r.draft_sequence != RequestState::kNoSequence || rounds_.needs(r).nodes == 0) return;
  r.draft_sequence = draft_pool_.create(r.context, [&] { return rounds_.drafter().create(); });
}

void Scheduler::close(RequestState& r) {
  rounds_.forget(r);
  if (r.sequence != RequestState::kNoSequence) {
    target_.release(r.sequence);
    target_pool_.count_release();
  }
  if (r.draft_sequence != RequestState::kNoSequence) {
    rounds_.drafter().release(r.draft_sequence);
    draft_pool_.count_release();
  }
  r.sequence = r.draft_sequence = RequestState::kNoSequence;
}

// [snippet preempt]
void Scheduler::preempt_youngest() {
  // [task 6.6: preempt the youngest]
  RequestState& r = *admitted_.back();
  admitted_.pop_back();
  close(r);
  r.phase = Phase::kWaiting;
  r.stats.preemptions++;
  waiting_.push_front(&r);
  plan_.preempted.push_back(r.id);
  // [end task 6.6]
}
// [end snippet preempt]

void Scheduler::remove(RequestState& r) {
  close(r);
  std::erase(admitted_, &r);
  std::erase(waiting_, &r);
}

}  // namespace specdec
