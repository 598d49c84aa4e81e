#include "stages/programs/trees/device_tree_brancher.h"

#include "common/base/check.h"
#include "common/sampling/device_sampling.h"

namespace specdec {

DeviceTreeBrancher::DeviceTreeBrancher(Backend& backend, const Capacity& capacity, int vocab_size,
                                       int max_context, int max_requests)
    : sampler_(backend.make_sampler({.vocab_size = vocab_size,
                                     .rows = max_requests * capacity.width,
                                     .history = max_requests * max_context,
                                     .trials = max_requests * capacity.trials,
                                     .levels = capacity.levels})) {
  SPECDEC_CHECK(sampler_ != nullptr, "a backend that samples, not {}", backend.name());
  const auto rows = static_cast<std::size_t>(max_requests * capacity.width);
  branches_.reserve(rows);
  probs_.reserve(rows);
  path_.reserve(rows * static_cast<std::size_t>(capacity.levels));
  tokens_.reserve(max_requests * capacity.trials);
}

void DeviceTreeBrancher::branch(std::span<const LookedAt> nodes, ConstDeviceRows logits) {
  branches_.clear();
  probs_.clear();
  path_.clear();
  std::size_t count = 0;
  for (const LookedAt& at : nodes) {
    branches_.push_back(ask(at));
    count += static_cast<std::size_t>(branches_.back().count);
  }
  tokens_.resize(count);
  sampler_->branch(logits, branches_, tokens_);
  std::size_t first = 0;
  for (std::size_t i = 0; i < nodes.size(); i++) {
    first += add(nodes[i], branches_[i], probs_[i], std::span(tokens_).subspan(first));
  }
}

// Describes the drafts after a node, and reserves memory for their distributions: one for all
// drafts, or one per draft.
Branch DeviceTreeBrancher::ask(const LookedAt& at) {
  const DraftRequest& request = *at.request;
  Drafts& tree = *request.drafts;
  const auto [by, count] = at.shape->wish(tree, at.node);
  const int wanted = by == BranchBy::kDistinctDraws ? count : by == BranchBy::kDraws ? 1 : 0;
  const int probs = wanted > 0 ? tree.add_probs() : Drafts::kCertain;
  for (int i = 1; i < wanted; i++) tree.add_probs();  // their numbers are consecutive
  probs_.push_back(probs);
  const SamplingOptions options = drafting_options(*at.shape, request.sampling);
  const std::size_t before = path_.size();
  append_path(tree, at.node, path_);
  const bool draws = by != BranchBy::kLikeliest && options.temperature > 0;
  return {.sampling = row_sampling(options, request.context),
          .path = std::span(path_).subspan(before),
          .by = by,
          .count = count,
          .races = draws && request.sampling.race,
          .seed = draws ? device_seed(*request.sampling.random) : 0,
          .position = static_cast<int>(request.context.size() + path_.size() - before),
          .purpose = static_cast<std::uint32_t>(Purpose::kDraft),
          .first_index = at.first_draw,
          .probs = probs == Drafts::kCertain ? nullptr : tree.device_probs_to_fill(probs)};
}

// Adds a node's drafts to its tree. Returns how many of the tokens belong to this node.
std::size_t DeviceTreeBrancher::add(const LookedAt& at, const Branch& asked, int probs,
                                    std::span<const BranchToken> tokens) {
  for (int k = 0; k < asked.count; k++) {
    const auto [token, prob] = tokens[k];
    if (token < 0 && k == 0) fail_without_distribution();
    if (token < 0) break;
    const int own = asked.by == BranchBy::kDistinctDraws ? probs + k : probs;
    add_trial(*at.request->drafts, at.node, token, own, prob);
  }
  at.shape->branched(*at.request->drafts, at.node);
  return static_cast<std::size_t>(asked.count);
}

}  // namespace specdec
