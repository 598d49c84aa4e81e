#pragma once
#include <memory>
#include <vector>

#include "stages/08_token_trees/tree_drafter.h"

namespace specdec {

// Drafts the continuations of a level where the logits are, on a backend that samples in its own
// memory: the distributions stay there, and only the tokens and their probabilities come back. The
// trees are those that the shapes grow on the host; drafts that are as likely as each other up to
// rounding may change places.
class DeviceTreeBrancher final : public TreeBrancher {
 public:
  // capacity: of a tree. vocab_size: of the trees' distributions. max_context, max_requests: as of
  // the ModelTreeDrafter. REQUIRES: the backend samples and outlives this object; trees are on it.
  DeviceTreeBrancher(Backend& backend, const Capacity& capacity, int vocab_size, int max_context,
                     int max_requests);

  void branch(std::span<const LookedAt> nodes, ConstDeviceRows logits) override;

 private:
  Branch ask(const LookedAt& at);
  std::size_t add(const LookedAt& at, const Branch& asked, int probs,
                  std::span<const BranchToken> tokens);

  std::unique_ptr<Sampler> sampler_;
  std::vector<Branch> branches_;     // [max_requests * width]
  std::vector<int> probs_;           // the same: the number of a branch's first distribution
  std::vector<TokenId> path_;        // of all branches
  std::vector<BranchToken> tokens_;  // of all branches
};

}  // namespace specdec
