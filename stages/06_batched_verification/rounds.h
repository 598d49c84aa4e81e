#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "common/language_model.h"
#include "stages/06_batched_verification/request_state.h"

namespace specdec {

// Prompt tokens that a request has computed in a step.
struct Prefill {
  RequestState* request = nullptr;
  int tokens = 0;
};

// Rows with logits that a sequence has in a pass; 0: it has no part in it.
inline int rows_of(SequenceId sequence, std::span<const Segment> pass) {
  const auto segment = std::ranges::find(pass, sequence, &Segment::sequence);
  return segment == pass.end() ? 0 : segment->logits_rows;
}

// What a round takes at most.
struct RoundNeeds {
  int rows = 1;     // of the target's pass, and as many places in its cache
  int drafted = 0;  // places in the draft's cache; 0: nothing is drafted
};

// The rounds of a batch, as an engine and its scheduler see them: what they take, and their phases.
// How tokens are drafted, verified and judged is not their concern.
class Rounds {
 public:
  virtual ~Rounds() = default;

  // What a request's next round takes, and what any round takes. It depends on the request alone:
  // its options, its rounds so far where K adapts, and its place in the contexts of both models.
  virtual RoundNeeds needs(const RequestState& request) const = 0;
  virtual int most_rows() const = 0;
  virtual MostCached most_cached(
      const BatchRequest& request) const = 0;  // in the whole of its life

  // The four phases of a step. A request whose failure is set takes no part in what follows.
  // draft: throws CacheFull; another Error fails the request that caused it.
  // verify: throws as LanguageModel::forward. judge: an Error fails the request.
  // REQUIRES: the same batch in all of them, at most max_batch; every request is running and, if
  // anything is drafted for it, has a draft sequence.
  virtual void draft(std::span<RequestState* const> batch) = 0;
  virtual void verify(std::span<RequestState* const> batch, std::span<const Prefill> prefills) = 0;
  virtual void judge(std::span<RequestState* const> batch) = 0;
  virtual void roll_back(RequestState& request) = 0;

  // Takes a draft phase back, before it is verified.
  virtual void undo_draft(std::span<RequestState* const> batch) = 0;

  // Rows of the target's pass that the request's round had; 0 where verify() did not take it.
  virtual int rows(const RequestState& request) const = 0;

  // The drafter's sequences, and how many passes it has made.
  virtual SequenceId create_draft() = 0;
  virtual void release_draft(SequenceId sequence) = 0;
  virtual int draft_length(SequenceId sequence) const = 0;
  virtual std::int64_t draft_forwards() const = 0;
};

}  // namespace specdec
