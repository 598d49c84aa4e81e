#include "stages/programs/adaptive/survival_counts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "kernels/int_size.h"
#include "stages/07_adaptive_drafting/entropy_spec_length.h"

namespace specdec {
namespace {

Json rounded(double number) { return std::round(number * 1e6) / 1e6; }

}  // namespace

void EstimateBins::add(double estimate, bool accepted) {
  const double log_odds = std::log(estimate) - std::log1p(-estimate);  // may be infinite
  const double bin = std::clamp((log_odds - kFirst) / kWidth, 0.0, kBins - 1.0);
  Bin& of_estimate = bins_[static_cast<std::size_t>(bin)];
  of_estimate.places++;
  of_estimate.accepted += accepted ? 1 : 0;
  of_estimate.sum += estimate;
}

std::int64_t EstimateBins::places() const {
  std::int64_t places = 0;
  for (const Bin& bin : bins_) places += bin.places;
  return places;
}

Json EstimateBins::to_json() const {
  Json places = Json::array(), accepted = Json::array(), means = Json::array();
  for (const Bin& bin : bins_) {
    places.push_back(bin.places);
    accepted.push_back(bin.accepted);
    means.push_back(bin.places > 0 ? rounded(bin.sum / static_cast<double>(bin.places)) : Json());
  }
  return {{"places", places}, {"accepted", accepted}, {"mean_estimates", means}};
}

Json to_json(const SurvivalCounts& counts) {
  Json json = {{"first_log_odds", EstimateBins::kFirst},
               {"log_odds_per_bin", EstimateBins::kWidth},
               {"margin", counts.margin.to_json()},
               {"entropy", counts.entropy.to_json()},
               {"confidence", counts.confidence.to_json()}};
  if (counts.survival.places() > 0) json["survival"] = counts.survival.to_json();
  return json;
}

CountedSpecLength::CountedSpecLength(std::unique_ptr<SpecLengthPolicy> policy,
                                     std::shared_ptr<SurvivalCounts> counts)
    : policy_(std::move(policy)), counts_(std::move(counts)), model_(policy_->largest()) {
  SPECDEC_CHECK(policy_->gate() != nullptr, "a policy with a gate");
}

bool CountedSpecLength::goes_on(std::span<const double> draft_probs, int drafted) {
  places_.resize(static_cast<std::size_t>(drafted));
  places_.push_back({.margin = top2_margin(draft_probs),
                     .entropy = 1 - normalised_entropy(draft_probs),
                     .confidence = std::ranges::max(draft_probs)});
  return policy_->gate()->goes_on(draft_probs, drafted);
}

void CountedSpecLength::learn(const Round& round) {
  const int asked = int_size(places_);
  const int tested = std::min(round.tested(), asked);
  for (int i = 0; i < tested; i++) {
    const Place& place = places_[i];
    const bool accepted = i < round.accepted;
    counts_->margin.add(model_.acceptance(i, place.margin), accepted);
    counts_->entropy.add(place.entropy, accepted);
    counts_->confidence.add(place.confidence, accepted);
    model_.learn(i, place.margin, accepted);
  }
  const std::span<const double> survival = policy_->survival();
  const int judged = std::min({round.counted(), asked, int_size(survival)});
  for (int i = 0; i < judged; i++) counts_->survival.add(survival[i], i < round.accepted);
  places_.clear();
  policy_->learn(round);
}

}  // namespace specdec
