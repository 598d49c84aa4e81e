#include "stages/programs/trees/device_tree_judge.h"

#include "common/base/check.h"
#include "common/sampling/device_sampling.h"

namespace specdec {

DeviceTreeJudge::DeviceTreeJudge(Backend& backend, RandomSource& random,
                                 const SpeculationOptions& options, const NamedSiblingRule& rule,
                                 const Capacity& capacity, int vocab_size, int max_context)
    : SamplingTreeJudge(backend, random, options, rule, 0, vocab_size),
      sampler_(backend.make_sampler({.vocab_size = vocab_size,
                                     .rows = capacity.rows(),
                                     .rounds = 1,
                                     .history = max_context,
                                     .trials = capacity.trials,
                                     .levels = capacity.levels})),
      places_(static_cast<std::size_t>(capacity.levels)) {
  SPECDEC_CHECK(sampler_ != nullptr && rule.on_device, "what a GPU can judge");
  nodes_.reserve(static_cast<std::size_t>(capacity.verified));
  trials_.reserve(static_cast<std::size_t>(capacity.trials));
}

// [snippet judge-tree-on-device]
void DeviceTreeJudge::judge(const Drafts& tree, DeviceRows logits, std::vector<TokenId>& context,
                            Generation& generation, Round& round) {
  const DraftedTree drafted = drafted_tree(*this, rule(), tree, logits, context, nodes_, trials_);
  TreeVerdict verdict;
  sampler_->judge_trees({&drafted, 1}, {&verdict, 1}, places_);
  emit(verdict, places_, tree, context, generation, round);
}
// [end snippet judge-tree-on-device]

DraftedTree drafted_tree(const Judge& judge, const NamedSiblingRule& rule, const Drafts& tree,
                         DeviceRows logits, std::span<const TokenId> context,
                         std::vector<DraftedNode>& nodes, std::vector<DraftedTrial>& trials) {
  nodes.clear();
  trials.clear();
  for (int i = 0; i < tree.size(); i++) nodes.push_back({tree.node(i).token, tree.node(i).parent});
  for (const Drafts::Trial& trial : tree.trials()) {
    trials.push_back({trial.node, tree.device_probs(trial)});
  }
  return {.logits = logits,
          .nodes = nodes,
          .trials = trials,
          .sampling = row_sampling(judge.judging(), context),
          .rule = *rule.on_device,
          .seed = device_seed(judge.random()),
          .position = static_cast<int>(context.size()),
          .level_draws = judge.drafting().named_by_level ? draw_index(1, 0) : 0};
}

// The verdict does not know where the text stops; what comes after that is discarded.
void emit(const TreeVerdict& verdict, std::span<const TestedPlace> places, const Drafts& tree,
          std::vector<TokenId>& context, Generation& generation, Round& round) {
  round.end = RoundEnd::kStopped;
  while (!generation.finished()) {
    const auto level = static_cast<std::size_t>(round.accepted);
    const bool last = round.accepted == verdict.accepted;  // the correction or the bonus
    const TestedPlace place = level < places.size() ? places[level] : TestedPlace{};
    if (last && verdict.token < 0) fail_without_distribution();
    if (place.tested > 0) round.tested_at.push_back(place.tested);
    context.push_back(last ? verdict.token : tree.node(place.node).token);
    generation.push(context.back());
    if (last) {
      round.end = place.tested > 0 ? RoundEnd::kRejected : RoundEnd::kAllAccepted;
      break;
    }
    round.path.push_back(place.node);
    round.accepted++;
  }
}

}  // namespace specdec
