#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "common/base/token_id.h"
#include "common/sampling/uniform.h"

namespace specdec {

// The random decisions of sampling and of speculation. Programs throw dice; an exhaustive check
// takes every path (tests), and nothing else in the code differs between the two.
class RandomSource {
 public:
  virtual ~RandomSource() = default;

  // A token drawn from probs [V], which decides about the token at this absolute position. index:
  // which of several draws for one position and purpose it is; two that have the same name are the
  // same draw.
  // REQUIRES: no prob is negative or NaN; their total, which need not be 1, is positive and finite.
  virtual TokenId token(std::span<const double> probs, int position, Purpose purpose,
                        int index = 0) = 0;

  // True with this probability; always from 1 on, never at 0. REQUIRES: no NaN, at least 0.
  virtual bool accept(double probability, int position, int index = 0) = 0;

  // A token drawn from probs [V] by an exponential race: each token i arrives at the time
  // -log(u_i) / probs[i], and the first one wins. The noise u_i belongs to the position and the
  // token alone, so two models that race at one position mostly agree where their probs do: this
  // is what couples a draft to its target without knowing it.
  // REQUIRES: as token().
  virtual TokenId race(std::span<const double> probs, int position) = 0;

  // Where every decision is the keyed draw of a seed: that seed. A GPU then makes the draws itself.
  virtual std::optional<std::uint64_t> seed() const { return std::nullopt; }
};

// The keyed draws of a seed (uniform.h). A token is drawn by inversion; a draft is accepted where
// its uniform is below the probability: below, and not "at most", as a uniform of 0 must not accept
// what has probability 0.
class Dice final : public RandomSource {
 public:
  explicit Dice(std::uint64_t seed) : seed_(seed) {}

  TokenId token(std::span<const double> probs, int position, Purpose purpose,
                int index = 0) override;
  bool accept(double probability, int position, int index = 0) override;
  TokenId race(std::span<const double> probs, int position) override;
  std::optional<std::uint64_t> seed() const override { return seed_; }

 private:
  std::uint64_t seed_;
};

}  // namespace specdec
