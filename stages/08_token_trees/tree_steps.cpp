#include "stages/08_token_trees/tree_steps.h"

#include <algorithm>

#include "common/base/check.h"
#include "stages/08_token_trees/keep_path.h"

namespace specdec {

TreeSteps::TreeSteps(LanguageModel& target, TreeDrafter& drafter, int spec_length,
                     int context_limit, Backend* device)
    : target_(target),
      drafter_(drafter),
      spec_length_(std::min(spec_length, drafter.room().levels)),
      context_limit_(context_limit),
      sequence_(target.create()),
      draft_sequence_(drafter.create()),
      tree_(drafter.room(), target.vocab_size(), device),
      logits_(target, drafter.room().verified + 1) {
  const auto rows = static_cast<std::size_t>(drafter.room().verified) + 1;
  verified_.reserve(rows);
  parents_.reserve(rows);
  kept_.reserve(rows);
}

TreeSteps::~TreeSteps() {
  target_.release(sequence_);
  drafter_.release(draft_sequence_);
}

void TreeSteps::prefill(std::span<const TokenId> prompt) {
  if (prompt.size() < 2) return;
  target_.forward(Segment{sequence_, prompt.first(prompt.size() - 1), 0}, {});
}

TreeRound TreeSteps::draft(std::span<const TokenId> context, const Sampling& sampling,
                           bool named_by_level) {
  TreeRound round;
  round.start = target_.length(sequence_);
  SPECDEC_CHECK(std::ssize(context) == round.start + 1, "{} tokens cached and one pending",
                round.start);
  // Depth is what counts against both contexts.
  const int levels =
      round_spec_length(spec_length_, round.start, context_limit_, drafter_.context_limit());
  tree_.clear();
  if (levels > 0) {
    const TreeRequest request{draft_sequence_, context, levels, sampling, named_by_level, &tree_};
    drafter_.draft(std::span(&request, 1));
    SPECDEC_CHECK(tree_.depth() <= levels, "at most {} levels", levels);
  }
  round.drafted = tree_.depth();
  return round;
}

// [snippet verify-tree]
void TreeSteps::verify(std::span<const TokenId> context) {
  const auto pending = uncached(target_, sequence_, context);
  verified_.assign(pending.begin(), pending.end());
  for (int node = 0; node < tree_.size(); node++) verified_.push_back(tree_.node(node).token);
  tree_.segment_parents(parents_);
  const int rows = tree_.size() + 1;
  target_.forward(Segment{sequence_, verified_, rows, parents_}, logits_.rows(0, rows));
}
// [end snippet verify-tree]

void TreeSteps::keep(const TreeRound& round) {
  keep_path(round, {target_, sequence_, drafter_, draft_sequence_}, kept_);
}

// [snippet tree-round]
TreeRound tree_round(TreeSteps& steps, TreeJudge& judge, std::vector<TokenId>& context,
                     Generation& generation) {
  TreeRound round = steps.draft(context, judge.drafting(), judge.looks_behind_rejection());
  steps.verify(context);
  judge.judge(steps.tree(), steps.logits(), context, generation, round);
  steps.keep(round);
  return round;
}
// [end snippet tree-round]

}  // namespace specdec
