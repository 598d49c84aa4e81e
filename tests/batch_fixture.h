#pragma once
#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "stages/05_rejection_sampling/sampling_drafter.h"
#include "stages/06_batched_verification/batch_engine.h"
#include "stages/programs/sampling/speculation_options.h"
#include "tests/request_alone.h"

namespace specdec::batch {

constexpr int kNever = -1;

// A request on its way into an engine, and out of it.
struct Arrival {
  BatchRequest request = {};
  int before_step = 1;            // when it is added, or
  int added_by = kNever;          // by the first callback of this earlier arrival
  int cancelled_before = kNever;  // the step before which it is cancelled, or
  int cancelled_by = kNever;      // by the callback of this arrival (perhaps itself) that brings
  int cancelled_by_delivery = 1;  // its so-many-th delivery
};

// What an engine did with one: outcome.tokens and outcome.text are what was delivered.
struct Served {
  RequestId id = kNever;
  Outcome outcome;
  int deliveries = 0;
  bool cancelled = false;  // cancel() said true
  bool finished = false;
  RequestResult result;
};

// Rows of stage 6's rounds, of the last step.
inline const RaggedPass& pass_of(const BatchEngine& engine) { return engine.rounds().pass(); }

// Runs arrivals through an engine to their end, and looks at everything on the way. The engine is
// expected to be new.
class BatchRun {
 public:
  virtual ~BatchRun() = default;
  BatchRun(BatchEngine& engine, std::vector<Arrival> arrivals)
      : engine_(engine), arrivals_(std::move(arrivals)), served_(arrivals_.size()) {}

  void run() {
    int last_arrival = 0;
    for (const Arrival& a : arrivals_) last_arrival = std::max(last_arrival, a.before_step);
    for (int step = 1; step <= last_arrival || !engine_.idle(); step++) {
      ASSERT_LT(step, kTooMany) << "it comes to its end";
      before(step);
      std::vector<const Served*> leaving;
      for (const Served& s : served_) {
        if (s.cancelled && !s.finished) leaving.push_back(&s);
      }
      last_delivered_ = kNever;
      look_at(engine_.step());
      for (const Served* s : leaving) {
        EXPECT_TRUE(s->finished) << "the step after its cancel ends request " << s->id;
      }
    }
    for (Served& s : served_) {
      ASSERT_TRUE(s.finished) << "request " << s.id << " has ended";
      s.result = engine_.take_result(s.id);
    }
    check_sums();
    check_end();
  }

  const std::vector<Arrival>& arrivals() const { return arrivals_; }
  const std::vector<Served>& served() const { return served_; }
  const std::vector<StepReport>& reports() const { return reports_; }

  // What makes a workload worth its time.
  bool preempted() const { return engine_.stats().preemptions > 0; }
  bool shared_a_prefix() const {  // not only its own, after a preemption
    return std::ranges::any_of(served_,
                               [](const Served& s) { return s.result.stats.prefix_tokens > 0; });
  }
  bool was_ragged() const { return ragged_; }  // in one step, other K and other counts accepted

 protected:
  const BatchEngine& engine() const { return engine_; }
  // The draft has `length` tokens cached after round n, whose K is not 0: all that it has seen of
  // the text. Counted without Round's arithmetic.
  virtual void check_draft(int /*n*/, const Round& round, int length) const {
    EXPECT_EQ(length, round.start + round.accepted + (round.accepted == round.drafted ? 0 : 1));
  }

 private:
  static constexpr int kTooMany = 20000;

  void before(int step) {
    for (std::size_t i = 0; i < arrivals_.size(); i++) {
      if (arrivals_[i].added_by == kNever && arrivals_[i].before_step == step) add(i);
    }
    for (std::size_t i = 0; i < arrivals_.size(); i++) {
      if (arrivals_[i].cancelled_before == step) cancel(i);
    }
  }

  void add(std::size_t i) {
    served_[i].id =
        engine_.add_request(arrivals_[i].request, [this, i](const Delivery& d) { take(i, d); });
    by_id_[served_[i].id] = i;
  }

  void cancel(std::size_t i) {
    if (served_[i].id != kNever && engine_.cancel(served_[i].id)) served_[i].cancelled = true;
  }

  void take(std::size_t i, const Delivery& delivery) {
    Served& s = served_[i];
    EXPECT_EQ(delivery.id, s.id) << "everyone gets their own";
    EXPECT_GT(delivery.id, last_delivered_) << "in order of age";
    last_delivered_ = delivery.id;
    EXPECT_FALSE(s.finished) << "nothing comes after the end";
    EXPECT_TRUE(delivery.finished || !delivery.tokens.empty()) << "a delivery brings something";
    if (s.cancelled) {
      EXPECT_TRUE(delivery.tokens.empty() && delivery.text.empty())
          << "nothing comes after the cancel of request " << s.id;
    }
    s.outcome.tokens.insert(s.outcome.tokens.end(), delivery.tokens.begin(), delivery.tokens.end());
    s.outcome.text += delivery.text;
    s.deliveries++;
    if (delivery.finished) {
      s.finished = true;
      s.outcome.finish_reason = delivery.finish_reason;
    }
    const int me = static_cast<int>(i);
    for (std::size_t other = 0; other < arrivals_.size(); other++) {
      const Arrival& a = arrivals_[other];
      if (s.deliveries == 1 && a.added_by == me) add(other);
      if (a.cancelled_by == me && a.cancelled_by_delivery == s.deliveries) cancel(other);
    }
  }

  // Rounds of the report have their rows in the pass in this order.
  void look_at(const StepReport& report) {
    reports_.push_back(report);
    std::set<int> drafted, accepted;
    int row = 0, n = 0;
    for (const StepReport::Part& part : report.parts) {
      if (!part.is_round()) {
        prefill_rows_ += part.prefilled;
        continue;
      }
      drafted.insert(part.round.drafted);
      accepted.insert(part.round.accepted);
      Outcome& outcome = served_.at(by_id_.at(part.id)).outcome;
      for (int i = 0; i < part.emitted; i++) {
        const DeviceRows decided_by = pass_of(engine_).logits(row + part.round.row_of(i), 1);
        outcome.rows.push_back(to_host(engine_.models().target.backend(), decided_by));
      }
      outcome.rounds.push_back(part.round);
      count_round(outcome.stats, part.round);
      check_rollback(n++, part);
      row += part.rows;
    }
    EXPECT_FALSE(report.given_up) << to_text(report);
    EXPECT_LE(report.rows(), engine_.options().token_budget);
    EXPECT_EQ(row, pass_of(engine_).round_rows());
    round_rows_ += row;
    ragged_ = ragged_ || (drafted.size() > 1 && accepted.size() > 1);
  }

  // Both caches hold exactly what of round n is in the text.
  void check_rollback(int n, const StepReport::Part& part) {
    if (part.length == 0) return;  // it is finished
    const int K = part.round.drafted, kept = part.round.start + part.round.accepted;
    EXPECT_EQ(part.length, kept + 1) << "the target has the pending token and the accepted drafts";
    if (K == 0 || engine_.models().draft_cache == nullptr) return;
    for (const RequestState* state : engine_.requests()) {
      if (state->id != part.id || state->draft_sequence == RequestState::kNoSequence) continue;
      SCOPED_TRACE("what the draft keeps of the text of its request");
      check_draft(n, part.round, engine_.rounds().drafter().length(state->draft_sequence));
    }
  }

  void check_sums() {
    EngineStats sum;
    for (const Served& s : served_) {
      const RequestStats& stats = s.result.stats;
      sum.emitted += stats.run.emitted;
      sum.rounds += stats.run.rounds;
      sum.preemptions += stats.preemptions;
      EXPECT_EQ(stats.run.emitted, std::ssize(s.result.tokens)) << "request " << s.id;
      expect_same_counts(stats.run, s.outcome.stats);
    }
    const EngineStats& stats = engine_.stats();
    EXPECT_EQ(stats.emitted, sum.emitted);
    EXPECT_EQ(stats.rounds, sum.rounds);
    EXPECT_EQ(stats.preemptions, sum.preemptions);
    EXPECT_EQ(stats.round_rows, round_rows_);
    EXPECT_EQ(stats.prefill_rows, prefill_rows_);
    EXPECT_EQ(stats.steps_given_up, 0);
  }

  void check_end() {
    engine_.forget_prefixes();
    for (const KvPool* pool : {&engine_.target_pool(), &engine_.draft_pool()}) {
      const char* name = pool == &engine_.target_pool() ? "target" : "draft";
      EXPECT_EQ(pool->n_used(), 0) << "pages of the " << name << " that nobody gave back";
      if (pool->paged() == nullptr) continue;
      EXPECT_TRUE(pool->paged()->sequences().empty()) << "sequences of the " << name;
      for (std::int32_t page = 0; page < pool->n_pages(); page++) {
        EXPECT_EQ(pool->paged()->allocator().owners(page), 0) << name << " page " << page;
      }
    }
  }

  BatchEngine& engine_;
  std::vector<Arrival> arrivals_;
  std::vector<Served> served_;
  std::map<RequestId, std::size_t> by_id_;
  std::vector<StepReport> reports_;
  std::int64_t round_rows_ = 0, prefill_rows_ = 0;
  RequestId last_delivered_ = kNever;  // in this step
  bool ragged_ = false;
};

// What came out of an engine is what comes out alone, or where it was cancelled, a beginning of it.
inline void expect_as_alone(const Served& served, const Outcome& alone) {
  const Outcome& got = served.outcome;
  const auto begins = [](const auto& part, const auto& whole, auto&& equal) {
    return part.size() <= whole.size() &&
           std::equal(part.begin(), part.end(), whole.begin(), equal);
  };
  if (!served.cancelled) {
    expect_same_tokens(got, alone);
    EXPECT_TRUE(std::ranges::equal(got.rounds, alone.rounds, same_round)) << "other rounds";
    expect_same_counts(served.result.stats.run, alone.stats);
    EXPECT_EQ(served.result.tokens, got.tokens) << "the result is what was delivered";
    EXPECT_EQ(served.result.text, got.text);
  } else {
    EXPECT_EQ(got.finish_reason, FinishReason::kCancelled);
    EXPECT_TRUE(begins(got.tokens, alone.tokens, std::equal_to<>())) << "a beginning of its tokens";
    EXPECT_TRUE(alone.text.starts_with(got.text)) << got.text;
    EXPECT_TRUE(begins(served.result.tokens, alone.tokens, std::equal_to<>()));
    EXPECT_TRUE(begins(got.tokens, served.result.tokens, std::equal_to<>()));
    EXPECT_TRUE(begins(got.rows, alone.rows, equal_bits)) << "from the same logits";
    EXPECT_TRUE(begins(got.rounds, alone.rounds, same_round)) << "in the same rounds";
  }
  EXPECT_EQ(served.result.finish_reason, got.finish_reason);
}

// ---- random workloads

inline int between(std::mt19937& random, int least, int most) {
  return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
}
inline bool one_in(std::mt19937& random, int n) { return between(random, 1, n) == 1; }
template <typename T, std::size_t n>
const T& one_of(std::mt19937& random, const T (&values)[n]) {
  return values[random() % n];
}

// All lossless rules, and one request in eight with lenience.
inline SpeculationOptions random_speculation(std::mt19937& random) {
  SpeculationOptions options;
  SamplingOptions& sampling = options.sampling;
  if (!one_in(random, 3)) {
    sampling.temperature = one_of(random, {0.6, 1.0, 1.4});
    sampling.top_k = one_of(random, {0, 0, 2, 4});
    sampling.top_p = one_of(random, {1.0, 1.0, 0.8});
  }
  sampling.repetition_penalty = one_of(random, {1.0, 1.0, 1.4, 0.7});
  options.draft_temperature =
      one_of(random, {0.0, sampling.temperature, sampling.temperature, 1.1});
  std::vector<const NamedRule*> rules;
  for (const NamedRule& rule : acceptance_rules()) {
    if (rule.lossless) rules.push_back(&rule);
  }
  options.rule =
      one_in(random, 3) ? &find_acceptance_rule("rejection") : rules[random() % rules.size()];
  if (options.rule->name == "rejection" && one_in(random, 4)) options.lenience = 0.6;
  return options;
}

// When it comes and goes: two thirds at the beginning, a few from callbacks, a few cancelled.
inline void random_times(std::mt19937& random, std::vector<Arrival>& arrivals) {
  const int n = static_cast<int>(arrivals.size());
  for (int i = 0; i < n; i++) {
    Arrival& a = arrivals[static_cast<std::size_t>(i)];
    a.before_step = one_in(random, 3) ? between(random, 1, 30) : between(random, 1, 4);
    if (i > 0 && one_in(random, 6)) a.added_by = between(random, 0, i - 1);
    if (one_in(random, 10)) a.cancelled_before = between(random, 1, 25);
    if (one_in(random, 12)) {
      a.cancelled_by = one_in(random, 2) ? i : between(random, 0, n - 1);
      a.cancelled_by_delivery = between(random, 1, 6);
    }
  }
}

inline bool full() { return std::getenv("SPECDEC_FULL") != nullptr; }

}  // namespace specdec::batch
