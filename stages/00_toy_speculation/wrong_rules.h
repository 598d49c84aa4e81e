#pragma once
#include <array>
#include <cmath>
#include <string_view>

#include "stages/00_toy_speculation/toy_speculation.h"

// Three common mistakes. With each, the text looks fine but has another law. A check that misses
// them is no use.
namespace specdec::toy {

// [snippet wrong-rules]
// p - q without the clamp sums to zero and cannot be normalised. If you forget max(0, ...), you end
// up with absolute values.
inline Probs unclamped_residual(const Probs& target_probs, const Probs& draft_probs) {
  Probs rest(target_probs.size());
  double total = 0;
  for (std::size_t i = 0; i < rest.size(); i++) {
    rest[i] = std::abs(target_probs[i] - draft_probs[i]);
    total += rest[i];
  }
  if (!(total > 0)) return target_probs;
  for (double& prob : rest) prob /= total;
  return rest;
}

inline Probs draft_alone(const Probs& /*target_probs*/, const Probs& draft_probs) {
  return draft_probs;
}

struct WrongRule {
  std::string_view name;
  Rule rule;
};

inline constexpr std::array<WrongRule, 3> kWrongRules = {{
    {"residual skipped: the correction comes from target_probs",
     {accept_probability, target_alone, target_alone}},
    {"residual not clamped: the correction comes from norm(|p - q|)",
     {accept_probability, unclamped_residual, target_alone}},
    {"bonus from the draft: the last token comes from draft_probs",
     {accept_probability, residual, draft_alone}},
}};
// [end snippet wrong-rules]

}  // namespace specdec::toy
