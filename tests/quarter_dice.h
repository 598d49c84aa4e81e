#pragma once
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "common/sampling/distribution.h"
#include "common/sampling/random_source.h"

namespace specdec {

// Every named uniform is one of four numbers, in the middle of a quarter; walks take every
// combination of those that are asked for. Exact where all probabilities are quarters.
class QuarterDice final : public RandomSource {
 public:
  TokenId token(std::span<const double> probs, int position, Purpose purpose,
                int index = 0) override {
    return sample(probs, uniform(position, purpose, index));
  }
  bool accept(double probability, int position, int index = 0) override {
    return uniform(position, Purpose::kAccept, index) < probability;
  }
  TokenId race(std::span<const double>, int) override { return 0; }

  double probability() const { return std::pow(0.25, static_cast<double>(asked_.size())); }
  bool next() {
    digits_.resize(asked_.size());
    asked_.clear();
    while (!digits_.empty() && digits_.back() == 3) digits_.pop_back();
    if (digits_.empty()) return false;
    digits_.back()++;
    return true;
  }

 private:
  double uniform(int position, Purpose purpose, int index) {
    const auto [found, is_new] =
        asked_.emplace(std::tuple(position, purpose, index), asked_.size());
    if (is_new && found->second == digits_.size()) digits_.push_back(0);
    return (digits_[found->second] + 0.5) / 4;
  }

  std::map<std::tuple<int, Purpose, int>, std::size_t> asked_;  // in this walk, with its digit
  std::vector<int> digits_;
};

}  // namespace specdec
