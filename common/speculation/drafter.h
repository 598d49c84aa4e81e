#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "common/kv_cache.h"
#include "common/sampling/distribution.h"
#include "common/sampling/random_source.h"
#include "common/speculation/capacity.h"
#include "common/speculation/drafts.h"
#include "common/speculation/likely_tokens.h"
#include "kernels/ops.h"

namespace specdec {

// The backend, where it chooses tokens in its own memory, so that distributions belong there.
inline Backend* sampling_device(Backend& backend) { return backend.samples() ? &backend : nullptr; }

// Asked about every draft of a request between the draft model's pass and the draw: whether it
// is made. It knows the tokens before the draft and q at its place, and not the draft itself:
// then a rule that is lossless for every K stays lossless. A drafter that has no q asks nothing.
class DraftGate {
 public:
  virtual ~DraftGate() = default;

  // draft_probs: q [V] at the next place, at temperature 1 where the drafts are the likeliest
  // tokens. drafted: how many the round has so far. Asked again, in the same round, it says the
  // same.
  virtual bool goes_on(std::span<const double> draft_probs, int drafted) = 0;

  // Whether the round has all the drafts that it is to have, whatever q is at the next place: then
  // the draft model need not run for it. False where the gate was not asked in this round.
  virtual bool has_enough(int /*drafted*/) const { return false; }
};

// How tokens are chosen from a model's logits.
struct Sampling {
  SamplingOptions options;         // temperature 0: the likeliest token, and no randomness
  RandomSource* random = nullptr;  // needed above temperature 0
  bool race = false;               // draw by exponential races instead of by inversion
  DraftGate* gate = nullptr;       // of the request's drafts; none: as many as were asked for
  std::shared_ptr<LikelyTokens> likely = nullptr;  // for drafters that learn (stage 7)
  bool named_by_level = false;  // the level is a part of the draws' names (stage 8)
};

// [snippet drafter]
struct DraftRequest {
  SequenceId sequence = 0;           // of the drafter
  std::span<const TokenId> context;  // prompt and text; the last token is the pending one
  int spec_length = 0;               // K, the most tokens to draft one after another
  Sampling sampling;
  Drafts* drafts = nullptr;  // what comes out; it is cleared first
};

// Proposes how texts go on. Never looks at stop conditions: that is the accepting side's business.
class Drafter {
 public:
  virtual ~Drafter() = default;

  virtual SequenceId create() = 0;
  virtual void release(SequenceId sequence) = 0;

  // Up to spec_length tokens for each request, fewer where it has no more or a gate ends them; the
  // same that the request would get alone. Throws BadLogits where a model has no distribution at a
  // place; if there is one request, it has the drafts before that place then.
  // REQUIRES: distinct sequences; a context goes on where the last one of its sequence ended,
  // except for what truncate() took away; context.size() - 1 + spec_length <= context_limit().
  virtual void draft(std::span<const DraftRequest> requests) = 0;

  // Forgets the tokens of the sequence from `length` on, as far as it has seen any: they were not
  // accepted.
  virtual void truncate(SequenceId sequence, int length) = 0;

  virtual int length(SequenceId sequence) const = 0;  // tokens of its context that are cached
  virtual int context_limit() const { return std::numeric_limits<int>::max(); }
  virtual std::int64_t forwards() const { return 0; }  // passes of a model so far

  // Used from stage 8 on, where drafts may branch. What a round of K drafts in a row takes at most.
  virtual Capacity capacity(int spec_length) const { return Capacity::of_chain(spec_length); }
  // Of what was drafted last for the sequence, the nodes of this path are in the text now, and no
  // others; `length` tokens of the text precede its last one.
  virtual void keep(SequenceId sequence, int length, std::span<const int> /*path*/) {
    truncate(sequence, length);
  }
};
// [end snippet drafter]

// Whether the request has all of its drafts: K, or as many as its gate can allow.
inline bool is_complete(const DraftRequest& request) {
  const int drafted = request.drafts->size();
  const DraftGate* gate = request.sampling.gate;
  return drafted >= request.spec_length ||
         (drafted > 0 && gate != nullptr && gate->has_enough(drafted));
}

// Proposes nothing, so every round is a plain step.
class NoDrafter final : public Drafter {
 public:
  SequenceId create() override { return 0; }
  void release(SequenceId) override {}
  void draft(std::span<const DraftRequest> requests) override {
    for (const DraftRequest& request : requests) request.drafts->clear();
  }
  void truncate(SequenceId, int) override {}
  int length(SequenceId) const override { return 0; }
};

}  // namespace specdec
