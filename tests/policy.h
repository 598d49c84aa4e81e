#pragma once
#include <memory>
#include <vector>

#include "stages/07_adaptive_drafting/adaptive_spec_length.h"

namespace specdec {

// K = spec_length in every round; or, where rounds have costs, one that adapts.
inline std::unique_ptr<SpecLengthPolicy> policy_of(int spec_length,
                                                   const std::vector<double>& round_costs = {}) {
  if (round_costs.empty()) return fixed_spec_length(spec_length);
  return std::make_unique<AdaptiveSpecLength>(round_costs);
}

}  // namespace specdec
