#pragma once
#include <span>

#include "common/sampling/random_source.h"

namespace specdec {

// The same random source, with every index raised by a fixed number. So two drafters of a round
// share no number, except in races, where coupling needs shared noise.
class RaisedDraws final : public RandomSource {
 public:
  RaisedDraws(RandomSource& random, int by) : random_(random), by_(by) {}

  TokenId token(std::span<const double> probs, int position, Purpose purpose,
                int index = 0) override {
    return random_.token(probs, position, purpose, index + by_);
  }
  bool accept(double probability, int position, int index = 0) override {
    return random_.accept(probability, position, index + by_);
  }
  TokenId race(std::span<const double> probs, int position) override {
    return random_.race(probs, position);
  }

 private:
  RandomSource& random_;
  int by_;
};

}  // namespace specdec
