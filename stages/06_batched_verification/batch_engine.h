#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
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

// The models and caches of an engine.
struct ServedModels {
  LanguageModel& target;
  KvCache& target_cache;
  Drafter& drafter;
  KvCache* draft_cache = nullptr;        // the drafter's; null: it has none
  const Tokenizer* tokenizer = nullptr;  // null: no texts, and no stop texts
  int token_limit = 0;                   // ids from this one on are not tokens; 0: all are tokens
  Judging judging = {};
  std::function<decltype(make_batched_rounds)> make_rounds = make_batched_rounds;
};

struct EngineOptions {
  int max_batch = 16;       // the most requests admitted at a time; REQUIRES: as many regions in a
                            // contiguous cache, and as many sequences in the drafter
  int spec_length = 5;      // the largest K that a request may ask for
  int max_cached = 0;       // the most tokens that a request may cache, with drafts; 0: no limit
  int token_budget = 256;   // the most rows of the target per step
  int prefill_chunk = 128;  // the most tokens of one prompt per step
  bool prefix_cache = true;
  bool check_invariants = kDebug;      // after every step; costs time
  std::function<double()> clock = {};  // seconds; none: real time since construction

#ifdef NDEBUG
  static constexpr bool kDebug = false;
#else
  static constexpr bool kDebug = true;
#endif
};

// Totals over all steps of an engine. Seconds are sums over the phases of steps.
struct EngineStats {
  std::int64_t steps = 0, target_forwards = 0;
  std::int64_t prefill_rows = 0, draft_prefill_rows = 0, round_rows = 0;
  std::int64_t rounds = 0, emitted = 0, preemptions = 0, steps_given_up = 0;
  std::int64_t prompt_tokens = 0, prefix_tokens = 0;  // at admissions: all, and found in the cache
  std::int64_t admissions_with_prefix = 0, admissions = 0;
  int peak_waiting = 0, peak_rounds = 0;         // the largest in any step
  double draft_seconds = 0, verify_seconds = 0;  // verifying includes prefills

  // Totals over the steps with this number of rounds and no prefill.
  struct BatchSize {
    std::int64_t steps = 0, rows = 0, emitted = 0;
    double seconds = 0, draft_seconds = 0, verify_seconds = 0;
  };
  std::vector<BatchSize> by_batch_size;  // [max_batch + 1]
};

// Serves many requests at once: continuous batching of speculative rounds. A request gets the same
// tokens as alone (stage 5 with the same options), whatever else is in the batch and whenever it
// arrives.
//
// REQUIRES: one thread at a time calls it. step() makes its callbacks last, in order of age. They
// may add and cancel requests. A callback that throws ends its own request with an error.
class BatchEngine {
 public:
  // REQUIRES: the models outlive the engine. Throws Error if the options contradict each other.
  BatchEngine(const ServedModels& models, EngineOptions options);
  ~BatchEngine();
  BatchEngine(const BatchEngine&) = delete;
  BatchEngine& operator=(const BatchEngine&) = delete;

  // Queues a request. Throws Error, and changes nothing, if the prompt is empty or has ids that are
  // not tokens; if options are out of range; if it needs more positions than the target has, or
  // more than the engine's options allow; or if it does not fit in a pool even alone. The message
  // gives the numbers.
  RequestId add_request(BatchRequest request, OnDelivery on_delivery = {});

  // Ends the delivery of the request's tokens; the next step frees its pages and finishes it.
  // Returns false if the request is unknown or already finished.
  bool cancel(RequestId id);

  // Runs a round for every running request, and as much prefill as the token budget allows.
  const StepReport& step();

  bool idle() const { return states_.empty(); }  // step() would do nothing
  double now() const { return options_.clock(); }

  // Returns the outcome of a finished request, and forgets it. REQUIRES: has_result(id).
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
  void forget_prefixes();  // frees all cached pages that no request uses

  // Aborts, saying what is wrong, unless the invariants hold that are due between two steps: for
  // states and queues, lengths in both caches, owners of every page, and counts of tokens. Does not
  // read the contents of pages.
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
  std::optional<Delivery> news_for(const RequestState& request) const;
  void hand_over(RequestState& request);
  void note_times(RequestState& request);
  RequestResult result_of(RequestState& request, FinishReason reason) const;
  void close_report();

  ServedModels models_;
  EngineOptions options_;
  KvPool target_pool_, draft_pool_;
  std::unique_ptr<BatchedRounds> own_rounds_;
  BatchedRounds& rounds_;
  std::shared_ptr<JudgingScratch> scratch_;  // of all requests' judges
  Scheduler scheduler_;
  std::map<RequestId, std::unique_ptr<RequestState>> states_;
  std::map<RequestId, RequestResult> results_;
  std::map<RequestId, FinishReason> finished_;  // in this step, not yet delivered
  std::vector<RequestId> cancelled_;            // since the last step began
  RequestId next_id_ = 0;
  StepReport report_;
  EngineStats stats_;
  int steps_given_up_ = 0;  // in a row, without an emitted token in between
  std::int64_t draft_forwards_before_ = 0;
  bool in_step_ = false;
};

}  // namespace specdec
