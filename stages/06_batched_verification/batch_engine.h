#pragma once
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "common/language_model.h"
#include "common/speculation/drafter.h"
#include "common/tokenizer/tokenizer.h"
#include "stages/06_batched_verification/batch_request.h"
#include "stages/06_batched_verification/batched_rounds.h"
#include "stages/06_batched_verification/kv_pool.h"
#include "stages/06_batched_verification/scheduler.h"
#include "stages/06_batched_verification/step_report.h"

namespace specdec {

// What an engine works on.
struct ServedModels {
  LanguageModel& target;
  KvCache& target_cache;
  Drafter& drafter;
  KvCache* draft_cache = nullptr;        // the drafter's; null: it has none
  const Tokenizer* tokenizer = nullptr;  // null: no texts, and no stop texts
  int token_limit = 0;                   // ids from here on are no tokens; 0: all are
  Judging judging = {};
};

struct EngineOptions {
  int max_batch = 16;       // requests that are admitted at a time; a contiguous cache has as many
                            // regions, a drafter room for as many sequences
  int spec_length = 5;      // the largest K that a request may ask for
  int max_cached = 0;       // tokens that a request may cache, drafts included; 0: all there is
  int token_budget = 256;   // rows of the target in a step
  int prefill_chunk = 128;  // the most tokens of one prompt in a step
  bool prefix_cache = true;
  bool check_invariants = kDebug;      // after every step; costs time
  std::function<double()> clock = {};  // seconds; none: real time since the engine was made

#ifdef NDEBUG
  static constexpr bool kDebug = false;
#else
  static constexpr bool kDebug = true;
#endif
};

// Counts over the life of an engine; seconds are of phases of its steps.
struct EngineStats {
  std::int64_t steps = 0, target_forwards = 0;
  std::int64_t prefill_rows = 0, round_rows = 0;
  std::int64_t rounds = 0, emitted = 0, preemptions = 0, steps_given_up = 0;
  std::int64_t prompt_tokens = 0, prefix_tokens = 0;  // of admitted prompts; found in prefix cache
  std::int64_t admissions_with_prefix = 0, admissions = 0;
  int peak_waiting = 0, peak_rounds = 0;         // of a step
  double draft_seconds = 0, verify_seconds = 0;  // with the prompts' rows

  // Steps with this number of rounds and no prefill.
  struct BatchSize {
    std::int64_t steps = 0, rows = 0, emitted = 0;
    double seconds = 0, draft_seconds = 0, verify_seconds = 0;
  };
  std::vector<BatchSize> by_batch_size;  // [max_batch + 1]
};

// Many requests at once: continuous batching of speculative rounds. Each request's tokens are those
// that it would have got alone (stage 5 with the same options), whatever else is in the batch and
// whenever it came.
//
// One thread at a time calls it. Callbacks come at the end of step(), in order of age; they may add
// and cancel requests. One that throws ends its own request with an error.
class BatchEngine {
 public:
  // REQUIRES: the models outlive the engine. Throws Error where the options contradict each other.
  BatchEngine(const ServedModels& models, EngineOptions options);
  ~BatchEngine();
  BatchEngine(const BatchEngine&) = delete;
  BatchEngine& operator=(const BatchEngine&) = delete;

  // Puts a request into the queue. Throws Error, and nothing has changed, for: a prompt without
  // tokens or with ids that are none; options out of range; more positions than the target has; a
  // request that is larger than the options allow, or would not fit into a pool even alone, with
  // the numbers.
  RequestId add_request(BatchRequest request, OnDelivery on_delivery = {});

  // No token of the request is delivered from now on; the next step gives back what it has. False
  // where there is no such request, or not any more.
  bool cancel(RequestId id);

  // A round for every running request, and the work on prompts that the budget allows.
  const StepReport& step();

  bool idle() const { return states_.empty(); }  // step() would do nothing
  double now() const { return options_.clock(); }

  // What became of a finished request; it is forgotten. REQUIRES: it is finished.
  RequestResult take_result(RequestId id);
  bool has_result(RequestId id) const { return results_.contains(id); }

  const ServedModels& models() const { return models_; }
  const EngineStats& stats() const { return stats_; }
  const EngineOptions& options() const { return options_; }
  const KvPool& target_pool() const { return target_pool_; }
  const KvPool& draft_pool() const { return draft_pool_; }
  // All requests that are not finished, by age.
  std::vector<const RequestState*> requests() const;
  std::span<RequestState* const> admitted() const { return scheduler_.admitted(); }
  const std::deque<RequestState*>& waiting() const { return scheduler_.waiting(); }
  const BatchedRounds& rounds() const { return rounds_; }  // of the last step
  void forget_prefixes();  // gives all pages back that no request uses

  // Aborts, saying what is wrong, unless everything is in order between two steps: states and
  // queues, lengths of both caches, owners of every page, counts of tokens. Reads no page's
  // contents.
  void check_invariants() const;

 private:
  void check_request(const BatchRequest& request) const;
  void check_fits(const BatchRequest& request) const;
  void drop_cancelled();
  void give_up(const CacheFull& full);
  void note_admissions();
  void settle(const StepPlan& plan);
  void settle_round(RequestState& request);
  void settle_prefill(const Prefill& prefill);
  int count(RequestState& request, int rows);
  void finish(RequestState& request, FinishReason reason);
  void deliver();
  void hand_over(RequestState& request);
  void note_times(RequestState& request);
  RequestResult result_of(RequestState& request, FinishReason reason) const;
  void close_report();

  ServedModels models_;
  EngineOptions options_;
  KvPool target_pool_, draft_pool_;
  BatchedRounds rounds_;
  std::shared_ptr<JudgingScratch> scratch_;  // of all requests' judges
  Scheduler scheduler_;
  std::map<RequestId, std::unique_ptr<RequestState>> states_;
  std::map<RequestId, RequestResult> results_;
  std::map<RequestId, FinishReason> finished_;  // in this step, not delivered yet
  std::vector<RequestId> cancelled_;            // since the last step began
  RequestId next_id_ = 0;
  StepReport report_;
  EngineStats stats_;
  int steps_given_up_ = 0;  // one after the other
  std::int64_t draft_forwards_before_ = 0;
  bool in_step_ = false;
};

}  // namespace specdec
