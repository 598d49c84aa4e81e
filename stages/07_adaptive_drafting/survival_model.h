#pragma once
#include <array>
#include <span>
#include <vector>

namespace specdec {

// log q1 - log q2 of the two likeliest tokens: how clearly the draft model prefers one token. At
// temperature T it is the margin of the logits over T. At most kLargestMargin, which it also is if
// the filters left one token. REQUIRES: probs [V], V >= 2.
inline constexpr double kLargestMargin = 8;
double top2_margin(std::span<const double> probs);

// 1, and the second largest probability at temperature 1 over the largest: they have the margin of
// all. The second is NaN if a logit is NaN or plus infinity, or all are minus infinity.
// REQUIRES: logits [V], V >= 2.
std::array<double, 2> two_likeliest(std::span<const float> logits);

// A logistic regression that is fitted while it is used: P = 1 / (1 + exp(-(a + b margin))). An
// example moves a and b by one step of Newton's method. Old examples fade, but never the ridge: so
// no step is longer than the ridge allows, and one surprise cannot overturn the fit.
class OnlineLogistic {
 public:
  // Begins with a and b. ridge: the weights, in examples, that hold them.
  struct Prior {
    double a = 0, b = 0;
    double ridge_a = 1, ridge_b = 1;
  };
  explicit OnlineLogistic(const Prior& prior)
      : prior_(prior), a_(prior.a), b_(prior.b), aa_(prior.ridge_a), bb_(prior.ridge_b) {}

  double logit(double margin) const { return a_ + b_ * margin; }
  // offset: what is added to this logit.
  void learn(double margin, bool accepted, double offset = 0);

 private:
  static constexpr double kForget = 0.995;  // about the last 200 examples count

  Prior prior_;
  double a_, b_;
  double aa_, ab_ = 0, bb_;  // the second derivatives of the loss
};

// Estimates whether drafts are accepted, from the draft model's margin, and learns from drafts that
// were tested. One logistic learns from all positions of a round, and one of each position learns
// what is different there.
class SurvivalModel {
 public:
  // positions: later ones are estimated as the last one. warm_up: the tests that it needs before
  // its estimates may be relied on. REQUIRES: positions >= 1.
  explicit SurvivalModel(int positions, int warm_up = 8);

  // The probability that the draft at this position of a round is accepted if those before it are.
  double acceptance(int position, double margin) const;

  // Call for each draft that was tested: it was accepted or rejected. Drafts after a rejection were
  // not tested and teach nothing.
  void learn(int position, double margin, bool accepted);

  // Whether rounds should still be verified in full: until then, few unlikely drafts were tested.
  bool warming_up() const { return warm_up_ > 0; }

 private:
  std::size_t index(int position) const;

  OnlineLogistic shared_;
  std::vector<OnlineLogistic> own_;  // [positions]
  int warm_up_;                      // tests that are missing
};

}  // namespace specdec
