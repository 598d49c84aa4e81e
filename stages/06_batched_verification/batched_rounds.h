#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/language_model.h"
#include "common/speculation/drafter.h"
#include "common/speculation/round_caches.h"
#include "stages/06_batched_verification/request_state.h"

namespace specdec {

// Prompt tokens that a request has computed in a step.
struct Prefill {
  RequestState* request = nullptr;
  int tokens = 0;
};

// One pass of the target over rows of many requests: chunks of prompts, and pending tokens with
// what was drafted after them. It knows nothing of drafting or judging; with no drafts at all it is
// plain continuous batching.
class RaggedPass {
 public:
  // max_rows: of rounds, all requests together.
  RaggedPass(LanguageModel& target, int max_batch, int max_rows);

  void clear();
  // The request's next tokens that are not cached. REQUIRES: that many precede the last.
  void add_prefill(const Prefill& prefill);
  // The request's pending token and its drafts, all with logits. REQUIRES: the drafts stay as they
  // are until run().
  void add_round(const RequestState& request, const Drafts& drafts);
  // Computes everything that was added; throws, and then nothing has changed, as
  // LanguageModel::forward.
  void run();

  int rows(const RequestState& request) const;  // of its round; 0: it has no part in the pass
  int round_rows() const { return static_cast<int>(tokens_.size()); }
  DeviceRows logits(int first, int count) const {
    return logits_.rows(first, count);
  }  // [count, V]

 private:
  LanguageModel& target_;
  std::vector<Segment> batch_;
  std::vector<TokenId> tokens_;  // of all rounds; its memory never moves
  LogitsBuffer logits_;          // [max_rows, V]
};

// A request's own judge, as in stage 5.
std::unique_ptr<Judge> make_own_judge(Backend& backend, RandomSource& random,
                                      const SpeculationOptions& options,
                                      const std::shared_ptr<JudgingScratch>& scratch);
// Judges each round by its request's own judge, one after the other. An Error fails the request
// that caused it, and no other.
void judge_each(std::span<const RoundToJudge> rounds);
// Ends a round: neither cache keeps a token that is not in the text.
void truncate_caches(const Round& round, const RoundCaches& caches);

// How the rounds of a batch are judged, and what stays of them. By default as in stage 5.
struct Judging {
  std::function<decltype(make_own_judge)> make_judge = make_own_judge;
  Backend* memory = nullptr;  // where the drafts' distributions must be; null: on the host
  std::function<decltype(judge_each)> judge = judge_each;
  std::function<decltype(truncate_caches)> roll_back = truncate_caches;
};

// Rounds of speculation for a batch (Leviathan et al., Algorithm 1, once for each request): the
// drafter proposes for all of them side by side, one ragged pass verifies, and each request accepts
// its own number of tokens by its own options and draws. A request without drafts takes a plain
// step.
class BatchedRounds {
 public:
  // spec_length: the largest K of a request.
  // REQUIRES: target and drafter outlive this object; the models' tokens are the same.
  BatchedRounds(LanguageModel& target, Drafter& drafter, Judging judging, int max_batch,
                int spec_length);

  // K of the request's next round. It depends on the request alone: its options, its rounds so far
  // where K adapts, and its place in the contexts of both models.
  int spec_length(const RequestState& request) const;
  // What that round takes at most.
  Capacity needs(const RequestState& request) const {
    return drafter_.capacity(spec_length(request));
  }
  int most_rows() const { return most_rows_; }                // of the target's pass
  MostCached most_cached(const BatchRequest& request) const;  // in the whole of its life

  // The four phases of a step. A request whose failure is set takes no part in what follows.
  // draft: throws CacheFull; another Error fails the request that caused it.
  // verify: throws as LanguageModel::forward. judge: an Error fails the request.
  // REQUIRES: the same batch in all of them, at most max_batch; every request is running and, if
  // anything is drafted for it, has a draft sequence.
  void draft(std::span<RequestState* const> batch);
  void verify(std::span<RequestState* const> batch, std::span<const Prefill> prefills);
  void judge(std::span<RequestState* const> batch);
  void roll_back(RequestState& request);

  // Takes a draft phase back, before it is verified.
  void undo_draft(std::span<RequestState* const> batch);

  Drafter& drafter() const { return drafter_; }
  const Judging& judging() const { return judging_; }
  // Of the last step.
  const Drafts& drafts(int i) const { return drafts_[static_cast<std::size_t>(i)]; }
  const RaggedPass& pass() const { return pass_; }

 private:
  LanguageModel& target_;
  Drafter& drafter_;
  Judging judging_;
  int most_rows_;
  std::vector<Drafts> drafts_;  // [max_batch]
  std::vector<DraftRequest> requests_;
  std::vector<RequestState*> drafting_;  // requests_[i] is for drafting_[i]
  RaggedPass pass_;
  std::vector<RoundToJudge> rounds_;
};

}  // namespace specdec
