#pragma once
#include <vector>

#include "common/speculation/draft_shape.h"
#include "common/speculation/drafter.h"
#include "stages/08_token_trees/token_tree.h"

namespace specdec {

// Prompt lookup with several continuations in one tree: the tokens that followed the context's
// suffix at each of its latest earlier occurrences. Drafting is free, so only the verified rows
// cost time. Every token is certain, and continuations that agree share their nodes.
//
// The suffix is the longest one that occurs earlier, of min_match to max_match tokens. Its latest
// occurrences come first. Each round reads the whole context again, with at most max_match
// comparisons per token.
class LookupTreeDrafter final : public Drafter {
 public:
  struct Options {
    int continuations = 3;
    int levels = 5;
    int min_match = 2, max_match = 8;
  };

  // Those of a tree: as many continuations as it has nodes per level, at least 1.
  static Options options_for(const DraftShape& shape);

  // A request whose tree has a shape of its own gets the continuations of that shape.
  explicit LookupTreeDrafter(const Options& options);

  SequenceId create() override { return created_++; }
  void release(SequenceId) override {}
  void draft(std::span<const DraftRequest> requests) override;
  void truncate(SequenceId, int) override {}
  int length(SequenceId) const override { return 0; }
  Capacity capacity(int spec_length) const override;

 private:
  void find(std::span<const TokenId> context, int continuations);
  void grow(const DraftRequest& request, int levels);

  Options options_;
  SequenceId created_ = 0;
  std::vector<int> places_;  // positions in the context where the continuations begin
  std::vector<int> nodes_;   // the last node of each continuation so far
};

}  // namespace specdec
