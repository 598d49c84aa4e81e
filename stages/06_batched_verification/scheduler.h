#pragma once
#include <deque>
#include <span>
#include <vector>

#include "common/language_model.h"
#include "stages/06_batched_verification/batched_rounds.h"
#include "stages/06_batched_verification/kv_pool.h"
#include "stages/06_batched_verification/request_state.h"

namespace specdec {

// What a step is going to compute, and what had to happen for it.
struct StepPlan {
  std::vector<RequestState*> rounds;  // oldest first, as prefills
  std::vector<Prefill> prefills;
  std::vector<RequestId> admitted, preempted;

  void clear();
};

// Decides which requests compute what in a step. First come, first served, and the oldest goes
// first wherever there is not enough for all:
//
// - Every running request has a round in every step. What the token budget leaves is for prompts,
//   in chunks.
// - A request is admitted when there are pages for all of its context and its first round, beside
//   what older requests need for theirs. No request is overtaken, so none starves.
// - If pages run out later, as texts grow, the youngest request loses its pages and waits again.
//   When its turn comes, its context is computed again, and the same tokens follow.
//
// Invariants: admitted requests are older than waiting ones; both lists are in order of age. The
// oldest request can always have all pages, and fits alone (BatchEngine refuses one that does not),
// so it finishes: there is no deadlock.
class Scheduler {
 public:
  struct Options {
    int max_batch = 0;      // requests admitted at a time
    int token_budget = 0;   // rows of a step
    int prefill_chunk = 0;  // the most tokens of one prompt in a step
  };

  // REQUIRES: token_budget >= max_batch * rounds.most_rows(); all arguments outlive this object.
  Scheduler(const Options& options, LanguageModel& target, BatchedRounds& rounds,
            KvPool& target_pool, KvPool& draft_pool);

  void enqueue(RequestState& request) { waiting_.push_back(&request); }
  // Takes a request out, wherever it is; its pages are free.
  void remove(RequestState& request);

  // The next step. may_admit: false after a step that failed for lack of room, so that no request
  // replaces the preempted ones, unless none is left. Throws CacheFull if a cache is out of
  // sequences; the plan is void then.
  const StepPlan& plan(bool may_admit = true);
  const StepPlan& last_plan() const { return plan_; }

  // The youngest admitted request back into the queue. REQUIRES: there is one.
  void preempt_youngest();

  std::span<RequestState* const> admitted() const { return admitted_; }
  const std::deque<RequestState*>& waiting() const { return waiting_; }

 private:
  struct Pages {
    int target = 0, draft = 0;
  };

  Pages pages_for_round(const RequestState& request) const;
  bool make_room(const Pages& pages);
  void plan_admitted(int& rows);
  bool reserve(RequestState& request, const Pages& pages);
  void admit(int& rows);
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
  Pages planned_;  // that the plan takes so far
};

}  // namespace specdec
