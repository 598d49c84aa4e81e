#pragma once
#include <memory>
#include <vector>

#include "stages/08_token_trees/tree_drafter.h"

namespace specdec {

// Drafts the next level of trees on the device that has the logits. The distributions stay in its
// memory; only the tokens and their probabilities are copied to the host. The trees are the same as
// on the host, except that drafts whose probabilities are equal up to rounding may swap ranks.
class DeviceTreeBrancher final : public TreeBrancher {
 public:
  // capacity: of a tree. vocab_size: V of the trees' distributions. max_context, max_requests: as
  // for ModelTreeDrafter. REQUIRES: the backend samples (Backend::samples()), outlives this object
  // and keeps the trees' distributions.
  DeviceTreeBrancher(Backend& backend, const Capacity& capacity, int vocab_size, int max_context,
                     int max_requests);

  void branch(std::span<const LookedAt> nodes, ConstDeviceRows logits) override;

 private:
  Branch ask(const LookedAt& at);
  std::size_t add(const LookedAt& at, const Branch& asked, int probs,
                  std::span<const BranchToken> tokens);

  std::unique_ptr<Sampler> sampler_;
  std::vector<Branch> branches_;     // [max_requests * width]
  std::vector<int> probs_;           // for each branch, the number of its first distribution
  std::vector<TokenId> path_;        // the paths of all branches
  std::vector<BranchToken> tokens_;  // the drafts of all branches
};

}  // namespace specdec
