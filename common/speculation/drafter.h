#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "common/kv_cache.h"
#include "common/sampling/distribution.h"
#include "common/sampling/random_source.h"
#include "common/speculation/likely_tokens.h"
#include "kernels/ops.h"

namespace specdec {

// The tokens drafted in a round, and for each the distribution that it was drawn from. All memory
// is taken at construction.
class Drafts {
 public:
  // capacity: the most tokens. vocab_size 0: only tokens without a distribution, as greedy drafting
  // makes them. device: null, or the backend in whose memory the distributions are to be, beside
  // the logits that they are made of and judged by; it outlives this object.
  Drafts(int capacity, int vocab_size, Backend* device = nullptr)
      : vocab_size_(vocab_size),
        device_(device),
        probs_(device ? static_cast<std::size_t>(vocab_size) : row(capacity)),
        one_hot_(static_cast<std::size_t>(capacity)) {
    tokens_.reserve(static_cast<std::size_t>(capacity));
    if (!device) return;
    probs_on_device_ = DeviceArray<double>(*device, row(capacity));
    device_rows_.reserve(static_cast<std::size_t>(capacity));
  }

  // No tokens yet, with room for as many, in the same memory.
  Drafts alike() const { return Drafts(capacity(), vocab_size_, device_); }

  int size() const { return static_cast<int>(tokens_.size()); }
  int capacity() const { return static_cast<int>(one_hot_.size()); }
  std::span<const TokenId> tokens() const { return tokens_; }
  TokenId token(int i) const { return tokens_[static_cast<std::size_t>(i)]; }

  bool on_device() const { return device_ != nullptr; }

  // draft_probs of token i, [V]; empty where it was certain: probability 1, all others 0.
  // REQUIRES: !on_device().
  std::span<const double> probs(int i) const {
    SPECDEC_CHECK(!on_device(), "distributions in host memory");
    if (one_hot_[static_cast<std::size_t>(i)]) return {};
    return std::span(probs_).subspan(row(i), static_cast<std::size_t>(vocab_size_));
  }

  // For each token its draft_probs, [V] in device memory, or null where it was certain.
  // REQUIRES: on_device().
  std::span<const double* const> device_probs() const { return device_rows_; }

  void clear() {
    tokens_.clear();
    device_rows_.clear();
  }

  // Adds a token that was chosen, not drawn. REQUIRES, as for all below: size() < capacity().
  void add_certain(TokenId token) { add(token, true); }

  // Adds a token that was drawn from what next_probs() [V] holds; on a device, what was made on the
  // host is copied there.
  std::span<double> next_probs() {
    SPECDEC_CHECK(size() < capacity() && vocab_size_ > 0, "room for a distribution");
    if (on_device()) return probs_;
    return std::span(probs_).subspan(row(size()), static_cast<std::size_t>(vocab_size_));
  }
  void add_drawn(TokenId token) {
    if (on_device()) device_->upload(probs_.data(), next_device_probs(), row(1) * sizeof(double));
    add(token, false);
  }

  // Adds a token that was drawn, on the device, from what next_device_probs() [V] holds.
  double* next_device_probs() const { return device_probs_at(size()); }
  double* device_probs_at(int i) const {  // of token i, which may be still to come
    SPECDEC_CHECK(i < capacity() && vocab_size_ > 0, "room for a distribution");
    return probs_on_device_.data() + row(i);
  }
  void add_drawn_on_device(TokenId token) { add(token, false); }

 private:
  std::size_t row(int i) const {
    return static_cast<std::size_t>(i) * static_cast<std::size_t>(vocab_size_);
  }
  void add(TokenId token, bool certain) {
    SPECDEC_CHECK(size() < capacity(), "at most {} drafts", capacity());
    one_hot_[tokens_.size()] = certain;
    if (on_device()) device_rows_.push_back(certain ? nullptr : next_device_probs());
    tokens_.push_back(token);
  }

  int vocab_size_;
  Backend* device_;
  std::vector<TokenId> tokens_;
  std::vector<double> probs_;          // [capacity, V]; with a device [V], for what the host makes
  std::vector<std::uint8_t> one_hot_;  // [capacity]
  DeviceArray<double> probs_on_device_;     // [capacity, V]
  std::vector<const double*> device_rows_;  // [size()]
};

// `count` Drafts alike.
inline std::vector<Drafts> make_drafts(int count, int capacity, int vocab_size,
                                       Backend* device = nullptr) {
  std::vector<Drafts> drafts;
  drafts.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; i++) drafts.emplace_back(capacity, vocab_size, device);
  return drafts;
}

// The backend, where it chooses tokens in its own memory, so that distributions belong there.
inline Backend* sampling_device(Backend& backend) { return backend.samples() ? &backend : nullptr; }

// Asked about every draft of a request between the draft model's pass and the draw: whether there
// is to be one. It knows the tokens before the draft and q at its place, and not the draft itself:
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
};

// [snippet drafter]
struct DraftRequest {
  SequenceId sequence = 0;           // of the drafter
  std::span<const TokenId> context;  // prompt and text; the last token is the pending one
  int spec_length = 0;               // K, the most tokens to draft
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
};
// [end snippet drafter]

// Whether the request has all of its drafts: K, or as many as its gate can want.
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
