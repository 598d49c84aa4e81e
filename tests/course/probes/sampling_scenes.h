#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/json_value.h"
#include "common/sampling/random_source.h"
#include "stages/00_toy_speculation/enumeration.h"
#include "tests/course/probes/facts.h"
#include "tests/course/probes/scenes.h"

// Distributions and random numbers for the probes of stages 5, 7 and 8.
namespace specdec::course {

inline constexpr int kNoLimit = 1 << 20;
inline constexpr double kExact = 1e-12, kClose = 1e-9;  // of sums and quotients; of exponentials

// All digits, unlike floats().
inline Json exact(const Probs& values, double tolerance = kExact) {
  return {{"floats", values}, {"tolerance", tolerance}};
}

inline Probs normal(std::span<const double> weights) {
  return normalised({weights.begin(), weights.end()});
}

// A distribution of V tokens; every third is ruled out where `zeros` says so.
inline Probs probs_of(std::uint64_t seed, int number, int V, bool zeros) {
  Probs weights;
  for (TokenId i = 0; i < V; i++) {
    const bool none = zeros && (i + number) % 3 == 0;
    weights.push_back(none ? 0 : 0.05 + uniform(seed, number, Purpose::kRace, i));
  }
  return normalised(weights);
}

// Writes down what it is asked; decides by the dice of a seed, unless it has an answer. From what
// is no distribution no token is drawn.
class Witness final : public RandomSource {
 public:
  explicit Witness(std::uint64_t seed) : dice_(seed) {}

  TokenId token(std::span<const double> probs, int position, Purpose purpose,
                int index = 0) override {
    drawn_from.assign(probs.begin(), probs.end());
    note(position, purpose, index);
    const bool can_be_drawn = std::ranges::all_of(probs, [](double prob) { return prob >= 0; });
    return can_be_drawn ? dice_.token(probs, position, purpose, index) : -1;
  }
  bool accept(double probability, int position, int index = 0) override {
    probabilities.push_back(probability);
    note(position, Purpose::kAccept, index);
    return answer.value_or(dice_.accept(probability, position, index));
  }
  TokenId race(std::span<const double> probs, int position) override {
    note(position, Purpose::kRace);
    return dice_.race(probs, position);
  }

  const Tokens* context = nullptr;            // the text as it grows
  int misplaced = 0;                          // draws at another position than the text's length
  std::optional<bool> answer;                 // to every accept()
  Probs drawn_from, probabilities;            // the last token()'s; every accept()'s
  std::vector<int> asked, purposes, indices;  // of all, in order

 private:
  void note(int position, Purpose purpose, int index = 0) {
    asked.push_back(position);
    purposes.push_back(static_cast<int>(purpose));
    indices.push_back(index);
    if (context && position != std::ssize(*context)) misplaced++;
  }

  Dice dice_;
};

// Randomness as a proof has it: every path.
class EveryOutcome final : public RandomSource {
 public:
  TokenId token(std::span<const double> probs, int position, Purpose purpose, int = 0) override {
    return paths_.token(normal(probs), position, purpose);
  }
  bool accept(double probability, int position, int = 0) override {
    accepts++;
    return paths_.accept(std::min(1.0, probability), position);
  }
  TokenId race(std::span<const double>, int) override { throw Error("races have too many paths"); }
  double probability() const { return paths_.probability(); }
  bool next() { return paths_.next(); }

  int accepts = 0;  // random numbers for acceptance

 private:
  toy::EveryPath paths_;
};

}  // namespace specdec::course
