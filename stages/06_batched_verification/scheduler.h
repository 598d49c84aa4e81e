#pragma once
#include <deque>
#include <span>
#include <vector>

#include "common/language_model.h"
#include "stages/06_batched_verification/batched_rounds.h"
#include "stages/06_batched_verification/kv_pool.h"
#include "stages/06_batched_verification/request_state.h"

namespace specdec {

// The work of the next step, and the admissions and preemptions that it required.
struct StepPlan {
  std::vector<RequestState*> rounds;  // oldest first, like prefills
  std::vector<Prefill> prefills;
  std::vector<RequestId> admitted, preempted;

  void clear();
};

// Continuous batching: decides what each request computes in a step. First come, first served; the
// oldest request comes first when there is not enough for all:
//
// - Every running request has a round in every step. Chunks of prompts get the rest of the token
//   budget; the draft model reads prompts in chunks of the same size, beside the target.
// - A request is admitted when a pass has rows for the rounds of all admitted requests, and there
//   are pages for its whole context and its first round, and for the next rounds of all older
//   requests. No request overtakes another, so none starves.
// - If pages run out later, because texts grow, the youngest request is preempted: it loses its
//   pages and waits again. After readmission, its context is recomputed, with the same tokens.
//
// Invariants: admitted requests are older than waiting ones; both lists are in order of age. The
// oldest request can get every page, and it fits alone (BatchEngine refuses requests that do not),
// so it finishes: there is no deadlock.
class Scheduler {
 public:
  struct Options {
    int max_batch = 0;      // the most requests that are admitted at a time
    int token_budget = 0;   // the most rows per step
    int prefill_chunk = 0;  // the most tokens of one prompt per step
  };

  // REQUIRES: token_budget >= rounds.most_rows() of every request; all arguments outlive this
  // object.
  Scheduler(const Options& options, LanguageModel& target, BatchedRounds& rounds,
            KvPool& target_pool, KvPool& draft_pool);

  void enqueue(RequestState& request) { waiting_.push_back(&request); }
  // Removes a waiting or admitted request, and releases its sequences and their pages.
  void remove(RequestState& request);

  // Plans the next step. may_admit: false after a step that failed for lack of room; then a request
  // is admitted only if no admitted one is left. Throws CacheFull if a cache has no free sequence;
  // the plan is void then.
  const StepPlan& plan(bool may_admit = true);
  const StepPlan& last_plan() const { return plan_; }

  // Puts the youngest admitted request back at the head of the queue. REQUIRES: there is one.
  void preempt_youngest();

  std::span<RequestState* const> admitted() const { return admitted_; }
  const std::deque<RequestState*>& waiting() const { return waiting_; }

 private:
  struct Pages {
    int target = 0, draft = 0;
  };

  Pages pages_for_round(const RequestState& request) const;
  Pages pages_for(const Prefill& prefill) const;
  Prefill next_chunk(RequestState& request, int rows) const;
  bool make_room(const Pages& pages);
  void plan_admitted(int& rows);
  bool reserve(RequestState& request, const Pages& pages);
  void admit(int& rows);
  bool has_rows(const RequestState& request) const;
  bool open(RequestState& request);
  void open_draft(RequestState& request);
  void close(RequestState& request);

  Options options_;
  LanguageModel& target_;
  BatchedRounds& rounds_;
  KvPool& target_pool_;
  KvPool& draft_pool_;
  std::deque<RequestState*> waiting_;
  std::vector<RequestState*> admitted_;
  StepPlan plan_;
  Pages planned_;  // new pages that the plan needs so far
};

}  // namespace specdec
