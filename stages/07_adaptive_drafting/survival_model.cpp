#include "stages/07_adaptive_drafting/survival_model.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "kernels/cpu/softmax.h"

namespace specdec {
namespace {

double logistic(double logit) { return 1 / (1 + std::exp(-logit)); }

// A margin of one doubles the odds, about. Positions differ little from each other.
constexpr OnlineLogistic::Prior kShared{.a = 0, .b = 0.7, .ridge_a = 1, .ridge_b = 16};
constexpr OnlineLogistic::Prior kOwn{.a = 0, .b = 0, .ridge_a = 4, .ridge_b = 64};

}  // namespace

double top2_margin(std::span<const double> probs) {
  double first = 0, second = 0;
  for (const double prob : probs) {
    second = std::max(second, std::min(first, prob));
    first = std::max(first, prob);
  }
  return second > 0 ? std::min(std::log(first / second), kLargestMargin) : kLargestMargin;
}

std::array<double, 2> two_likeliest(std::span<const float> logits) {
  const float first = cpu::largest_score(logits);
  const auto at = static_cast<std::size_t>(std::ranges::find(logits, first) - logits.begin());
  if (at == logits.size()) return {1, first};  // NaN
  const float second =
      std::max(cpu::largest_score(logits.first(at)), cpu::largest_score(logits.subspan(at + 1)));
  return {1, std::exp(static_cast<double>(second) - first)};
}

// [snippet online-logistic-learn]
void OnlineLogistic::learn(double margin, bool accepted, double offset) {
  // [task 7.7: one step of Newton's method]
  const double prob = logistic(offset + logit(margin));
  const double error = (accepted ? 1 : 0) - prob;
  const double weight = prob * (1 - prob);
  aa_ = prior_.ridge_a + kForget * (aa_ - prior_.ridge_a) + weight;
  ab_ = kForget * ab_ + weight * margin;
  bb_ = prior_.ridge_b + kForget * (bb_ - prior_.ridge_b) + weight * margin * margin;
  const double determinant = aa_ * bb_ - ab_ * ab_;
  a_ += error * (bb_ - ab_ * margin) / determinant;
  b_ += error * (aa_ * margin - ab_) / determinant;
  // [end task 7.7]
}
// [end snippet online-logistic-learn]

SurvivalModel::SurvivalModel(int positions, int warm_up) : shared_(kShared), warm_up_(warm_up) {
  SPECDEC_CHECK(positions >= 1, "at least one position, not {}", positions);
  own_.assign(static_cast<std::size_t>(positions), OnlineLogistic(kOwn));
}

std::size_t SurvivalModel::index(int position) const {
  return std::min(static_cast<std::size_t>(position), own_.size() - 1);
}

double SurvivalModel::acceptance(int position, double margin) const {
  return logistic(shared_.logit(margin) + own_[index(position)].logit(margin));
}

void SurvivalModel::learn(int position, double margin, bool accepted) {
  own_[index(position)].learn(margin, accepted, shared_.logit(margin));
  shared_.learn(margin, accepted);
  warm_up_ = std::max(0, warm_up_ - 1);
}

}  // namespace specdec
