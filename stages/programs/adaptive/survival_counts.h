#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/json_value.h"
#include "common/speculation/spec_length_policy.h"
#include "stages/07_adaptive_drafting/survival_model.h"

namespace specdec {

// How often drafts were accepted that had a similar estimate. The bins have equal widths in the
// log-odds of the estimate, since many estimates are near 1.
class EstimateBins {
 public:
  void add(double estimate, bool accepted);
  std::int64_t places() const;
  Json to_json() const;  // for each bin: the places, those accepted, and the mean of the estimates

  static constexpr int kBins = 20;
  static constexpr double kFirst = -4, kWidth = 0.5;  // log-odds; the first and last bin are open

 private:
  struct Bin {
    std::int64_t places = 0, accepted = 0;
    double sum = 0;  // of estimates
  };
  std::array<Bin, kBins> bins_;
};

// Counts for the estimates of a run, all requests together. Those of one draft are counted where it
// was tested; survival is counted at every place that was drafted.
struct SurvivalCounts {
  EstimateBins margin;      // SurvivalModel, fitted before this place was counted
  EstimateBins entropy;     // 1 - normalised_entropy()
  EstimateBins confidence;  // the largest probability
  EstimateBins survival;    // SpecLengthPolicy::survival(), if the policy makes estimates
};

Json to_json(const SurvivalCounts& counts);

// Follows another policy and counts what came true of the estimates at the places that its gate was
// asked about.
class CountedSpecLength final : public SpecLengthPolicy, private DraftGate {
 public:
  // REQUIRES: the policy has a gate.
  CountedSpecLength(std::unique_ptr<SpecLengthPolicy> policy,
                    std::shared_ptr<SurvivalCounts> counts);

  int largest() const override { return policy_->largest(); }
  int next() const override { return policy_->next(); }
  void learn(const Round& round) override;
  DraftGate* gate() override { return this; }
  std::vector<Note> notes() const override { return policy_->notes(); }
  std::span<const double> survival() const override { return policy_->survival(); }

 private:
  struct Place {
    double margin, entropy, confidence;
  };

  bool goes_on(std::span<const double> draft_probs, int drafted) override;
  bool has_enough(int drafted) const override { return policy_->gate()->has_enough(drafted); }

  std::unique_ptr<SpecLengthPolicy> policy_;
  std::shared_ptr<SurvivalCounts> counts_;
  SurvivalModel model_;        // of this request alone, whatever the policy uses
  std::vector<Place> places_;  // of this round
};

}  // namespace specdec
