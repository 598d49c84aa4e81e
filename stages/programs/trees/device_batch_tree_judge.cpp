#include "stages/programs/trees/device_batch_tree_judge.h"

#include "common/base/check.h"
#include "common/base/error.h"
#include "stages/programs/trees/device_tree_judge.h"

namespace specdec {

DeviceBatchTreeJudge::DeviceBatchTreeJudge(Backend& backend, const NamedSiblingRule& rule,
                                           const TreeSizes& sizes)
    : BatchTreeJudge(backend, rule, 0, sizes.vocab_size),
      levels_(static_cast<std::size_t>(sizes.room.levels)),
      sampler_(backend.make_sampler({.vocab_size = sizes.vocab_size,
                                     .rows = sizes.max_requests * (sizes.room.verified + 1),
                                     .rounds = sizes.max_requests,
                                     .history = sizes.max_requests * sizes.max_context,
                                     .trials = sizes.max_requests * sizes.room.trials,
                                     .levels = sizes.room.levels})),
      lists_(static_cast<std::size_t>(sizes.max_requests)),
      verdicts_(lists_.size()),
      places_(lists_.size() * levels_) {
  SPECDEC_CHECK(sampler_ != nullptr && rule.on_device, "what a GPU can judge");
  drafted_.reserve(lists_.size());
  for (Lists& lists : lists_) {
    lists.nodes.reserve(static_cast<std::size_t>(sizes.room.verified));
    lists.trials.reserve(static_cast<std::size_t>(sizes.room.trials));
  }
}

void DeviceBatchTreeJudge::judge(std::span<const TreeToJudge> trees) {
  drafted_.clear();
  for (std::size_t i = 0; i < trees.size(); i++) {
    const auto& [r, tree, logits, round] = trees[i];
    drafted_.push_back(drafted_tree(*tree, logits, r->request.speculation.sampling, rule_, r->dice,
                                    r->context, lists_[i].nodes, lists_[i].trials));
  }
  const auto places = std::span(places_).first(trees.size() * levels_);
  sampler_->judge_trees(drafted_, std::span(verdicts_).first(trees.size()), places);
  for (std::size_t i = 0; i < trees.size(); i++) {
    const auto& [r, tree, logits, round] = trees[i];
    try {
      emit(verdicts_[i], places.subspan(i * levels_, levels_), *tree, r->context, r->generation,
           *round);
    } catch (const Error& error) {
      r->failure = error.what();
    }
  }
}

}  // namespace specdec
