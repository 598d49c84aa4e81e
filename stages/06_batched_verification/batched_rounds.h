#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/language_model.h"
#include "common/speculation/drafter.h"
#include "common/speculation/round_caches.h"
#include "kernels/int_size.h"
#include "stages/06_batched_verification/request_state.h"

namespace specdec {

// A chunk of a request's prefill, computed in one step: tokens of the target, and tokens of the
// draft model. Either may be 0.
struct Prefill {
  RequestState* request = nullptr;
  int tokens = 0, draft_tokens = 0;

  int rows() const { return std::max(tokens, draft_tokens); }  // of the token budget
};

// One pass of the target over rows of many requests: chunks of prompts, and pending tokens with
// their drafts. It does not depend on how drafts are made or judged; without drafts, it is plain
// continuous batching.
class RaggedPass {
 public:
  // max_rows: the most rows of all rounds together; rows of prefills do not count.
  RaggedPass(LanguageModel& target, int max_batch, int max_rows);

  void clear();
  // Adds the request's next uncached tokens, without logits. REQUIRES: not the last token.
  void add_prefill(const Prefill& prefill);
  // Adds the request's pending token and its drafts, all with logits. REQUIRES: the drafts do not
  // change before run().
  void add_round(const RequestState& request, const Drafts& drafts);
  // Adds a segment whose tokens lie elsewhere until run(). Used from stage 10 on.
  void add(const Segment& segment);
  // Runs the pass over everything that was added. Throws as LanguageModel::forward(); then nothing
  // has changed.
  void run();

  int rows(const RequestState& request) const;  // of its round; 0: it has no round in the pass
  int round_rows() const { return int_size(tokens_) + added_rows_; }
  DeviceRows logits(int first, int count) const {
    return logits_.rows(first, count);
  }  // [count, V]

 private:
  LanguageModel& target_;
  std::vector<Segment> batch_;
  std::vector<TokenId> tokens_;  // of all rounds; its memory never moves
  int added_rows_ = 0;           // of logits, by add()
  LogitsBuffer logits_;          // [max_rows, V]
};

// Makes a request's own judge, as in stage 5.
std::unique_ptr<Judge> make_own_judge(Backend& backend, RandomSource& random,
                                      const SpeculationOptions& options,
                                      const std::shared_ptr<JudgingScratch>& scratch);
// Judges rounds one after another, each with its request's own judge. An Error fails only the
// request that caused it.
void judge_each(std::span<const RoundToJudge> rounds);
// Ends a round: removes rejected drafts from both caches.
void truncate_caches(const Round& round, const RoundCaches& caches);

// How the rounds of a batch are judged and rolled back; by default as in stage 5.
struct Judging {
  std::function<decltype(make_own_judge)> make_judge = make_own_judge;
  Backend* memory = nullptr;  // the device that keeps the drafts' distributions; null: the host
  std::function<decltype(judge_each)> judge = judge_each;
  std::function<decltype(truncate_caches)> roll_back = truncate_caches;
};

// Rounds of speculation for a batch (Leviathan et al., Algorithm 1, once per request). The drafter
// drafts for all requests at once, one ragged pass verifies the drafts, and each request accepts
// its own number of them, by its own options and random draws. A request without drafts takes a
// plain step.
//
// This is all that the engine and the scheduler know of rounds. From stage 10 on, a derived class
// also makes rounds of requests that have several texts.
class BatchedRounds {
 public:
  // spec_length: the largest K of a request. max_rows: of all rounds of a pass; 0: as many as
  // max_batch requests need.
  // REQUIRES: target and drafter outlive this object; the models' tokens are the same.
  BatchedRounds(LanguageModel& target, Drafter& drafter, Judging judging, int max_batch,
                int spec_length, int max_rows = 0);
  virtual ~BatchedRounds() = default;

  // K of the request's next round. It depends on the request alone: its options, its earlier rounds
  // if K adapts, and its position in the contexts of both models; and on a budget, from stage 7 on.
  virtual int spec_length(const RequestState& request) const;
  // What a round of the request needs with this K.
  Capacity capacity(const BatchRequest& request, int K) const {
    return request.capacity ? request.capacity(K) : drafter_.capacity(K);
  }
  // The most that its next round needs.
  virtual Capacity needs(const RequestState& request) const {
    return capacity(request.request, spec_length(request));
  }
  // The most rows of any of its rounds in the target's pass.
  virtual int most_rows(const RequestState& request) const {
    return capacity(request.request, request.request.spec_length).rows();
  }
  int most_rows() const { return most_rows_; }
  // Over all of its rounds. Throws Error if it can never have one.
  virtual MostCached most_cached(const BatchRequest& request) const;

  // The tokens of its context that the draft model can cache before the next round.
  int draft_prefill_left(const RequestState& request) const;
  bool is_prefilled(const RequestState& request) const;

  // The phases of a step. If a request fails in one phase, the next phases skip it.
  // draft(): throws CacheFull; any other Error fails only the request that caused it.
  // prefill_drafts(), verify(): throw as LanguageModel::forward(). judge(): an Error fails only its
  // request.
  // REQUIRES: all phases get the same batch, of at most max_batch requests; each is running, and
  // has a draft sequence if anything is drafted for it.
  virtual void draft(std::span<RequestState* const> batch);
  void prefill_drafts(std::span<const Prefill> prefills);
  virtual void verify(std::span<RequestState* const> batch, std::span<const Prefill> prefills);
  virtual void judge(std::span<RequestState* const> batch);
  virtual void roll_back(RequestState& request);

  // Undoes a draft phase that was not verified.
  virtual void undo_draft(std::span<RequestState* const> batch);

  // Call before the request's sequences are released.
  virtual void forget(RequestState&) {}
  // Aborts unless the request's tokens and its context agree, between two steps.
  virtual void check_tokens(const RequestState& request) const;

  Drafter& drafter() const { return drafter_; }
  virtual std::int64_t draft_forwards() const { return drafter_.forwards(); }
  const Judging& judging() const { return judging_; }
  // Of the last step.
  const Drafts& drafts(int i) const { return drafts_[i]; }
  const RaggedPass& pass() const { return pass_; }

 protected:
  LanguageModel& target_;
  Drafter& drafter_;

 private:
  Judging judging_;
  int most_rows_;

 protected:
  std::vector<Drafts> drafts_;  // [max_batch]

 private:
  std::vector<DraftRequest> requests_;
  std::vector<RequestState*> drafting_;  // requests_[i] is for drafting_[i]
  std::vector<RoundToJudge> rounds_;
  std::vector<Segment> chunks_;  // of prefills, for the draft model

 protected:
  RaggedPass pass_;
};

// Makes the rounds of an engine.
std::unique_ptr<BatchedRounds> make_batched_rounds(LanguageModel& target, Drafter& drafter,
                                                   const Judging& judging, int max_batch,
                                                   int spec_length);

}  // namespace specdec
