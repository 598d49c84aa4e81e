#pragma once
#include <vector>

#include "common/speculation/drafter.h"
#include "stages/08_token_trees/token_tree.h"

namespace specdec {

// Lookup that proposes several continuations: what followed the end of the context at each of the
// last places where it occurred before, as one tree. Drafting is free, so only the verified rows
// cost; every token is certain, and continuations that agree share their nodes.
//
// The end of the context that is looked for is as long as possible (at most max_match tokens, at
// least min_match), and the latest places come first. It reads the context anew in each round, in
// max_match comparisons a token at most.
class LookupTreeDrafter final : public Drafter {
 public:
  struct Options {
    int continuations = 3;
    int levels = 5;
    int min_match = 2, max_match = 8;
  };

  explicit LookupTreeDrafter(const Options& options);

  SequenceId create() override { return created_++; }
  void release(SequenceId) override {}
  void draft(std::span<const DraftRequest> requests) override;
  void truncate(SequenceId, int) override {}
  int length(SequenceId) const override { return 0; }
  Capacity capacity(int spec_length) const override;

 private:
  void find(std::span<const TokenId> context);
  void grow(const DraftRequest& request);

  Options options_;
  SequenceId created_ = 0;
  std::vector<int> places_;  // where continuations begin in the context
  std::vector<int> nodes_;   // what each has reached
};

}  // namespace specdec
