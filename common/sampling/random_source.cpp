#include "common/sampling/random_source.h"

#include <cmath>
#include <limits>

#include "common/base/check.h"
#include "common/sampling/distribution.h"

namespace specdec {

// [snippet dice]
TokenId Dice::token(std::span<const double> probs, int position, Purpose purpose, int index) {
  return sample(probs, uniform(seed_, position, purpose, index));
}

bool Dice::accept(double probability, int position, int index) {
  SPECDEC_CHECK(probability >= 0, "a probability of at least 0, not {}", probability);
  return uniform(seed_, position, Purpose::kAccept, index) < probability;
}
// [end snippet dice]

// [snippet race]
TokenId Dice::race(std::span<const double> probs, int position) {
  TokenId winner = -1;
  double first = std::numeric_limits<double>::infinity();
  for (TokenId i = 0; i < std::ssize(probs); ++i) {
    const double prob = probs[i];
    if (!(prob > 0)) continue;  // never arrives
    const double time = -std::log(uniform(seed_, position, Purpose::kRace, i)) / prob;
    if (winner < 0 || time < first) {
      winner = i;
      first = time;
    }
  }
  SPECDEC_CHECK(winner >= 0, "a token with a probability above 0");
  return winner;
}
// [end snippet race]

}  // namespace specdec
