#include "stages/programs/trees/device_batch_tree_judge.h"

#include "common/base/check.h"
#include "common/base/error.h"
#include "stages/programs/trees/device_tree_judge.h"

namespace specdec {

DeviceBatchTreeJudge::DeviceBatchTreeJudge(Backend& backend, const NamedSiblingRule& rule,
                                           const TreeBatchSizes& sizes)
    : TreeBatchJudge(rule),
      backend_(backend),
      levels_(static_cast<std::size_t>(sizes.capacity.levels)),
      sampler_(backend.make_sampler({.vocab_size = sizes.vocab_size,
                                     .rows = sizes.max_requests * sizes.capacity.rows(),
                                     .rounds = sizes.max_requests,
                                     .history = sizes.max_requests * sizes.max_context,
                                     .trials = sizes.max_requests * sizes.capacity.trials,
                                     .levels = sizes.capacity.levels})),
      lists_(static_cast<std::size_t>(sizes.max_requests)),
      verdicts_(lists_.size()),
      places_(lists_.size() * levels_) {
  SPECDEC_CHECK(sampler_ != nullptr && rule.on_device, "what a GPU can judge");
  drafted_.reserve(lists_.size());
  for (Lists& lists : lists_) {
    lists.nodes.reserve(static_cast<std::size_t>(sizes.capacity.verified));
    lists.trials.reserve(static_cast<std::size_t>(sizes.capacity.trials));
  }
}

void DeviceBatchTreeJudge::judge(std::span<const RoundToJudge> rounds) {
  drafted_.clear();
  for (std::size_t i = 0; i < rounds.size(); i++) {
    const auto& [r, tree, logits] = rounds[i];
    drafted_.push_back(drafted_tree(*r->judge, rule_, *tree, logits, r->context, lists_[i].nodes,
                                    lists_[i].trials));
  }
  const auto places = std::span(places_).first(rounds.size() * levels_);
  sampler_->judge_trees(drafted_, std::span(verdicts_).first(rounds.size()), places);
  for (std::size_t i = 0; i < rounds.size(); i++) {
    const auto& [r, tree, logits] = rounds[i];
    try {
      emit(verdicts_[i], places.subspan(i * levels_, levels_), *tree, r->context, r->generation,
           r->round);
    } catch (const Error& error) {
      r->failure = error.what();
    }
  }
}

}  // namespace specdec
