#include "stages/programs/trees/tree_places.h"

#include <fmt/format.h>

#include "stages/programs/trees/device_tree_brancher.h"
#include "stages/programs/trees/device_tree_judge.h"

namespace specdec {

TreePlaces tree_places(Backend& target, Backend* draft, const NamedSiblingRule& rule,
                       bool looked_at) {
  if (!target.samples()) return {nullptr, "the logits are in the host's memory"};
  if (draft != nullptr && draft != &target) {
    return {nullptr, "the draft model has a device of its own"};
  }
  if (!rule.on_device) {
    return {nullptr, fmt::format("no device knows the rule --siblings {}", rule.name)};
  }
  if (looked_at) return {nullptr, "the distributions are shown"};
  return {&target, ""};
}

std::unique_ptr<TreeBrancher> make_tree_brancher(const TreePlaces& places, const TreeSizes& sizes) {
  if (places.device == nullptr) return nullptr;
  return std::make_unique<DeviceTreeBrancher>(*places.device, sizes.room, sizes.vocab_size,
                                              sizes.max_context, sizes.max_requests);
}

std::unique_ptr<TreeJudge> make_tree_judge(const TreePlaces& places, Backend& target,
                                           RandomSource& random, const SamplingOptions& options,
                                           double draft_temperature, const NamedSiblingRule& rule,
                                           const TreeSizes& sizes) {
  if (places.device == nullptr) {
    return std::make_unique<SamplingTreeJudge>(target, random, options, draft_temperature, rule,
                                               sizes.room.verified + 1, sizes.vocab_size);
  }
  return std::make_unique<DeviceTreeJudge>(*places.device, random, options, draft_temperature, rule,
                                           sizes.room, sizes.vocab_size, sizes.max_context);
}

std::unique_ptr<TreeJudge> make_greedy_tree_judge(Backend& target, const TreeSizes& sizes) {
  return std::make_unique<GreedyTreeJudge>(target, target.samples() ? sizes.room.verified + 1 : 0);
}

}  // namespace specdec
