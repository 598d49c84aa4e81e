#pragma once
#include <memory>
#include <string>
#include <vector>

#include "stages/08_token_trees/sibling_rules.h"
#include "stages/08_token_trees/tree_shape.h"

// A tree of each kind, for tests on a device.
namespace specdec {

struct NamedShape {
  std::string name;
  MakeTreeShape make;
  std::size_t tokens = 0;   // that the draft chooses in a round with all levels
  bool same_draws = false;  // all drafts after a node come from one distribution
  bool chain = false;
};

inline std::vector<NamedShape> shapes() {
  const std::vector<int> widths = {3, 2, 1};
  return {
      {"chain", [] { return std::make_unique<Chains>(1, 4); }, 4, true, true},
      {"chains", [] { return std::make_unique<Chains>(3, 3); }, 9, true},
      {"distinct", [=] { return std::make_unique<DistinctDrafts>(widths); }, 15},
      {"top", [=] { return std::make_unique<Likeliest>(plan_of_widths(widths)); }, 15},
      {"grow", [] { return std::make_unique<GrownTree>(6, 3, 3); }, 21},
  };
}

inline bool goes_with(const NamedSiblingRule& rule, const NamedShape& shape) {
  return rule.rule == nullptr ? shape.chain : shape.same_draws || !rule.needs_same_draws;
}

}  // namespace specdec
