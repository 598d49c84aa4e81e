#pragma once
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>

#include "stages/00_toy_speculation/toy_speculation.h"

// The law of a random text is its distribution. Here it is computed without random numbers: every
// path through a round, weighted by its probability. The round is the one that samples, with other
// dice.
namespace specdec::toy {

// [snippet every-path]
// Randomness without chance: each walk through the round takes another path, until all paths were
// taken.
class EveryPath {
 public:
  TokenId token(const Probs& probs, int, Purpose) { return choose(probs); }
  bool accept(double probability, int) { return choose({probability, 1 - probability}) == 0; }

  // The probability of the walk since the last next(): the product over its forks.
  double probability() const {
    double product = 1;
    for (const Fork& fork : forks_) product *= fork.options[fork.taken];
    return product;
  }

  // Prepares the next walk, which takes the next option at the last fork that has one left. False
  // if no fork has.
  bool next() {
    // [task 0.5: take every path]
    depth_ = 0;
    for (; !forks_.empty(); forks_.pop_back()) {
      Fork& last = forks_.back();
      last.taken = possible(last.options, last.taken + 1);
      if (last.taken < last.options.size()) return true;
    }
    return false;
    // [end task 0.5]
  }

 private:
  struct Fork {
    Probs options;  // the probability of each
    std::size_t taken;
  };

  // The first possible option from `begin` on.
  static std::size_t possible(const Probs& options, std::size_t begin) {
    while (begin < options.size() && options[begin] <= 0) ++begin;
    return begin;
  }

  TokenId choose(const Probs& options) {
    if (depth_ == forks_.size()) forks_.push_back({options, possible(options, 0)});
    const std::size_t taken = forks_[depth_++].taken;
    SPECDEC_CHECK(taken < options.size(), "one of {} options to be possible", options.size());
    return taken;
  }

  std::vector<Fork> forks_;  // of this walk, from the beginning of the round
  std::size_t depth_ = 0;    // how many of them the walk has passed
};
// [end snippet every-path]

// [snippet round-law]
using Law = std::map<Text, double>;  // the probability of each text that can occur

// What one round emits after `context`.
inline Law round_law(const Tables& tables, TokenId context, int spec_length,
                     const Rule& rule = {}) {
  Law law;
  EveryPath random;
  do {
    const Round round = speculative_round(tables, {context}, spec_length, random, rule);
    law[round.emitted] += random.probability();
  } while (random.next());
  return law;
}
// [end snippet round-law]

// The law of the first `length` tokens; shorter texts stay as they are.
inline Law shortened(const Law& law, int length) {
  Law shorter;
  for (const auto& [text, probability] : law) {
    const auto end = text.begin() + std::min<std::ptrdiff_t>(length, std::ssize(text));
    shorter[Text(text.begin(), end)] += probability;
  }
  return shorter;
}

// The law of the first `length` tokens after `context`, from as many rounds as that takes. Tokens
// of the last round beyond them are discarded.
inline Law speculation_law(const Tables& tables, TokenId context, int spec_length, int length,
                           const Rule& rule = {}) {
  std::vector<Law> rounds;  // [context token]
  for (TokenId token = 0; token < std::ssize(tables.target_probs); ++token) {
    rounds.push_back(round_law(tables, token, spec_length, rule));
  }
  // texts[n]: texts of n tokens after which a round ends, with the probability that one does.
  std::vector<Law> texts(length + 1);
  texts[0] = {{{}, 1.0}};
  for (int n = 0; n < length; ++n) {
    for (Law& law : rounds) law = shortened(law, length - n);
    for (const auto& [text, text_probability] : texts[n]) {
      for (const auto& [emitted, probability] : rounds[text.empty() ? context : text.back()]) {
        Text longer = text;
        longer.insert(longer.end(), emitted.begin(), emitted.end());
        texts[longer.size()][longer] += text_probability * probability;
      }
    }
  }
  return texts.back();
}

// The same from the target alone: the product of its conditional probabilities.
inline Law target_law(const Tables& tables, TokenId context, int length) {
  // [task 0.4: what the target alone would write]
  Law law = {{{}, 1.0}};
  for (int i = 0; i < length; ++i) {
    Law longer;
    for (const auto& [text, text_probability] : law) {
      const Probs& target_probs = tables.target_probs[text.empty() ? context : text.back()];
      for (TokenId token = 0; token < std::ssize(target_probs); ++token) {
        if (target_probs[token] <= 0) continue;
        Text extended = text;
        extended.push_back(token);
        longer[extended] = text_probability * target_probs[token];
      }
    }
    law = std::move(longer);
  }
  return law;
  // [end task 0.4]
}

// The largest |a - b| of a text's probabilities, over all texts of either; infinite where one of
// them is no finite number.
inline double largest_difference(const Law& a, const Law& b) {
  Law difference = a;
  for (const auto& [text, probability] : b) difference[text] -= probability;
  double largest = 0;
  for (const auto& [text, value] : difference) {
    if (!std::isfinite(value)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

}  // namespace specdec::toy
