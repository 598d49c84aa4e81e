#pragma once
#include <span>
#include <vector>

#include "common/language_model.h"
#include "stages/08_token_trees/tree_drafter.h"
#include "stages/08_token_trees/tree_judge.h"

namespace specdec {

// Stage 4's DraftAndVerify for trees: the parts of a round that do not depend on how a tree is
// judged. One request. After an Error it is of no more use.
class TreeSteps {
 public:
  // spec_length: the most levels of a tree; 0: plain steps. context_limit: positions that the
  // target may use; its cache has room for them and for the nodes of a tree.
  // device: of the tree's distributions (TokenTree).
  // REQUIRES: target and drafter outlive this object; their tokens are the same.
  TreeSteps(LanguageModel& target, TreeDrafter& drafter, int spec_length, int context_limit,
            Backend* device = nullptr);
  ~TreeSteps();
  TreeSteps(const TreeSteps&) = delete;
  TreeSteps& operator=(const TreeSteps&) = delete;

  // Feeds all of the prompt but its last token, which is pending then.
  void prefill(std::span<const TokenId> prompt);

  // Begins a round: proposes a tree after the context. Allocates nothing, as all below.
  // REQUIRES: the context is what the target has cached, and the pending token.
  TreeRound draft(std::span<const TokenId> context, const Sampling& sampling,
                  bool named_by_level = false);

  // One pass of the target over the pending token and all nodes.
  void verify(std::span<const TokenId> context);

  // Ends a round: both caches keep the path that was accepted, and no other node.
  void keep(const TreeRound& round);

  LanguageModel& target() const { return target_; }
  TreeDrafter& drafter() const { return drafter_; }
  SequenceId sequence() const { return sequence_; }                        // of the target
  SequenceId draft_sequence() const { return draft_sequence_; }            // of the drafter
  const TokenTree& tree() const { return tree_; }                          // of the last round
  DeviceRows logits() const { return logits_.rows(0, tree_.size() + 1); }  // the root's, the nodes'

 private:
  LanguageModel& target_;
  TreeDrafter& drafter_;
  int spec_length_;
  int context_limit_;
  SequenceId sequence_;
  SequenceId draft_sequence_;
  TokenTree tree_;
  std::vector<TokenId> verified_;  // the pending token and the nodes
  std::vector<int> parents_, kept_;
  LogitsBuffer logits_;
};

// One round: a tree is drafted, verified in one pass, judged along one path, and that path is kept.
TreeRound tree_round(TreeSteps& steps, TreeJudge& judge, std::vector<TokenId>& context,
                     Generation& generation);

}  // namespace specdec
