#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "common/base/token_id.h"
#include "common/sampling/uniform.h"

namespace specdec {

// The random decisions of sampling and of speculation. Programs throw dice, and exhaustive tests
// take every path; the code that asks is the same.
class RandomSource {
 public:
  virtual ~RandomSource() = default;

  // Draws a token from probs [V] for this absolute position. index: tells several draws for one
  // position and purpose apart. Two draws with the same position, purpose and index are the same.
  // REQUIRES: no prob is negative or NaN; their total, which need not be 1, is positive and finite.
  virtual TokenId token(std::span<const double> probs, int position, Purpose purpose,
                        int index = 0) = 0;

  // True with this probability: always if it is 1 or more, never if it is 0. REQUIRES: at least 0,
  // not NaN.
  virtual bool accept(double probability, int position, int index = 0) = 0;

  // Draws a token from probs [V] by an exponential race (the Gumbel-max trick in another form):
  // token i arrives at the time -log(u_i) / probs[i], and the first one wins. The noise u_i depends
  // on the position and the token alone. So two models that race at one position mostly agree if
  // their probs do: this couples a draft to a target that it does not know. REQUIRES: as token().
  virtual TokenId race(std::span<const double> probs, int position) = 0;

  // The seed, if every decision is a keyed draw of one. Then a GPU can make the draws itself.
  virtual std::optional<std::uint64_t> seed() const { return std::nullopt; }
};

// The keyed draws of a seed (uniform.h). A token is drawn by inversion. A draft is accepted if its
// uniform is below the probability; "at most" would accept probability 0 with a uniform of 0.
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
