#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "common/kv_cache.h"
#include "common/language_model.h"
#include "common/sampling/distribution.h"
#include "common/sampling/random_source.h"
#include "common/speculation/capacity.h"
#include "common/speculation/drafts.h"
#include "common/speculation/likely_tokens.h"
#include "kernels/ops.h"

namespace specdec {

// The device that keeps the distributions: the backend if it samples in its own memory, else null.
inline Backend* sampling_device(Backend& backend) { return backend.samples() ? &backend : nullptr; }

// Decides for each draft of a request whether it is made. The drafter asks after the draft model's
// pass and before the draw. So the gate knows the tokens before the draft and q at its position,
// but not the draft itself, and a rule that is lossless for every K stays lossless. A drafter that
// has no q never asks.
class DraftGate {
 public:
  virtual ~DraftGate() = default;

  // Whether the next draft is made. draft_probs: q [V] at its position, at temperature 1 if
  // drafting is greedy. drafted: the number of drafts that the round already has. Within a round,
  // the same question always gets the same answer.
  virtual bool goes_on(std::span<const double> draft_probs, int drafted) = 0;

  // Whether goes_on() depends only on the ratio of the two largest probabilities. A greedy drafter
  // may then pass these two alone, in any scale, and need not compute q for the gate.
  virtual bool compares_two() const { return false; }

  // Whether the gate allows no more drafts in this round, whatever q is at the next position. Then
  // the draft model need not run again. False if the gate was not asked in this round.
  virtual bool has_enough(int /*drafted*/) const { return false; }
};

class DraftShape;

// How tokens are chosen from a model's logits.
struct Sampling {
  SamplingOptions options;         // temperature 0: the likeliest token, and no randomness
  RandomSource* random = nullptr;  // needed above temperature 0
  bool race = false;               // draw by exponential race (Gumbel-max), not by inversion
  DraftGate* gate = nullptr;       // may end the drafts before K; null: no gate
  std::shared_ptr<LikelyTokens> likely = nullptr;  // for drafters that learn from them (stage 7)
  bool named_by_level = false;  // the index of a draw contains the level (stage 8)
  DraftShape* shape = nullptr;  // of this request's drafts (stage 8); null: the drafter's own
};

// [snippet drafter]
struct DraftRequest {
  SequenceId sequence = 0;           // one of the drafter's sequences
  std::span<const TokenId> context;  // prompt and text; the last token is the pending one
  int spec_length = 0;               // K, the most tokens to draft one after another
  Sampling sampling;
  Drafts* drafts = nullptr;        // receives the drafts; draft() clears it first
  SequenceId target_sequence = 0;  // for drafters that read the target's rows (stage 9)
};

// Drafts continuations of texts. A drafter ignores stop conditions; the accepting side checks them.
class Drafter {
 public:
  virtual ~Drafter() = default;

  virtual SequenceId create() = 0;
  virtual void release(SequenceId sequence) = 0;

  // Drafts up to spec_length tokens for each request; fewer if the drafter has no more or a gate
  // ends them. A request gets the same drafts in a batch as alone. Throws BadLogits if a model has
  // no distribution at some position; a single request then has the drafts before that position.
  // REQUIRES: distinct sequences; each context continues the previous one of its sequence, except
  // for what truncate() removed; context.size() - 1 + spec_length <= context_limit().
  virtual void draft(std::span<const DraftRequest> requests) = 0;

  // Forgets the tokens of the sequence from `length` on: they were rejected. If fewer tokens are
  // cached, does nothing.
  virtual void truncate(SequenceId sequence, int length) = 0;

  virtual int length(SequenceId sequence) const = 0;  // cached tokens of its context
  virtual int context_limit() const { return std::numeric_limits<int>::max(); }
  virtual std::int64_t forwards() const { return 0; }  // passes of draft models in draft() so far

  // Used from stage 6 on: caches parts of contexts before their first drafts, so that draft() has
  // less to catch up with. REQUIRES: each segment follows what its sequence has cached, has at most
  // uncached_before() tokens, and wants no logits. Throws as LanguageModel::forward().
  virtual void prefill(std::span<const Segment> /*chunks*/) {}
  // How many tokens of the sequence's context before position `end` prefill() can still cache. 0:
  // nothing is left, or the drafter reads contexts in draft() only.
  virtual int uncached_before(SequenceId, int /*end*/) const { return 0; }

  // Used from stage 8 on, where drafts may branch. The capacity of a round with K = spec_length.
  virtual Capacity capacity(int spec_length) const { return Capacity::of_chain(spec_length); }
  // Keeps those of the sequence's last drafts that were accepted, the nodes of `path`, and forgets
  // the others. length: cached tokens after the rollback, as for truncate().
  virtual void keep(SequenceId sequence, int length, std::span<const int> /*path*/) {
    truncate(sequence, length);
  }
};
// [end snippet drafter]

// Whether the request has all of its drafts: K, or as many as its gate allows.
inline bool is_complete(const DraftRequest& request) {
  const int drafted = request.drafts->size();
  const DraftGate* gate = request.sampling.gate;
  return drafted >= request.spec_length ||
         (drafted > 0 && gate != nullptr && gate->has_enough(drafted));
}

// Drafts nothing, so every round is a plain step.
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
