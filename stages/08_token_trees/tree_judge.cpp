#include "stages/08_token_trees/tree_judge.h"

#include <utility>

#include "common/base/check.h"
#include "kernels/int_size.h"
#include "stages/08_token_trees/block_verification.h"

namespace specdec {

// [snippet judge-greedily]
void GreedyTreeJudge::judge(const Drafts& tree, DeviceRows logits, std::vector<TokenId>& context,
                            Generation& generation, Round& round) {
  if (!choices_.empty()) {
    backend_.argmax(logits, std::span(choices_).first(logits.rows));
  }
  // [task 8.3: walk the tree]
  int node = Drafts::kRoot;
  round.end = RoundEnd::kStopped;
  while (!generation.finished()) {
    const TokenId choice = this->choice(logits, node + 1);  // row 0 is the root's
    context.push_back(choice);
    generation.push(choice);
    const auto trials = tree.trials(node);
    if (trials.empty()) {
      round.end = RoundEnd::kAllAccepted;  // a leaf: the bonus
      break;
    }
    round.tested_at.push_back(int_size(trials));
    node = tree.child(node, choice);
    if (node == Drafts::kRoot) {
      round.end = RoundEnd::kRejected;  // no child has it: the choice is the correction
      break;
    }
    round.path.push_back(node);
    round.accepted++;
  }
  // [end task 8.3]
}
// [end snippet judge-greedily]

TokenId GreedyTreeJudge::choice(DeviceRows logits, int row) const {
  if (choices_.empty()) return argmax(backend_, logits.slice(row, 1));
  const TokenId choice = choices_[row];
  if (choice < 0) fail_not_numbers();
  return choice;
}

namespace {

SpeculationOptions with_rule(SpeculationOptions options, const NamedSiblingRule& rule) {
  options.rule = rule.of_one;
  return options;
}

}  // namespace

SamplingTreeJudge::SamplingTreeJudge(Backend& backend, RandomSource& random,
                                     const SpeculationOptions& options,
                                     const NamedSiblingRule& rule,
                                     std::shared_ptr<JudgingScratch> scratch)
    : Judge(backend, random, with_rule(options, rule), std::move(scratch)), rule_(rule) {
  drafting_.named_by_level = rule.rule == nullptr;  // block verification looks beyond rejections
}

// [snippet judge-tree]
void SamplingTreeJudge::judge(const Drafts& tree, DeviceRows logits, std::vector<TokenId>& context,
                              Generation& generation, Round& round) {
  if (rule_.rule == nullptr) return judge_path(tree, logits, context, generation, round);
  const SiblingRule judge_siblings = takes_likeliest() ? lenient_likeliest : rule_.rule;
  int node = Drafts::kRoot;
  round.end = RoundEnd::kStopped;
  while (!generation.finished()) {
    const auto position = int_size(context);
    const auto target_probs = standardise(logits, node + 1, context);
    const auto trials = tree.trials(node);
    if (trials.empty()) {
      context.push_back(draw(target_probs, position));  // a leaf: the bonus
      generation.push(context.back());
      round.end = RoundEnd::kAllAccepted;
      break;
    }
    const SiblingDecision decision = judge_siblings(
        {position, tree, trials, target_probs, options().lenience}, random(), residual());
    round.tested_at.push_back(decision.tested);
    context.push_back(decision.token);  // a draft, or the correction
    generation.push(decision.token);
    node = decision.node;
    if (node == Drafts::kRoot) {
      round.end = RoundEnd::kRejected;
      break;
    }
    round.path.push_back(node);
    round.accepted++;
  }
}
// [end snippet judge-tree]

void SamplingTreeJudge::judge_path(const Drafts& tree, DeviceRows logits,
                                   std::vector<TokenId>& context, Generation& generation,
                                   Round& round) {
  const auto start = static_cast<std::ptrdiff_t>(context.size());
  standardise(logits, 0, context);
  for (int node = 0; node < tree.size(); node++) {  // a chain: node i follows node i - 1
    SPECDEC_CHECK(tree.node(node).parent == node - 1 && tree.n_trials() == tree.size(), "a chain");
    context.push_back(tree.node(node).token);
    standardise(logits, node + 1, context);
  }
  const DraftedBlock block{static_cast<int>(start), std::span(context).subspan(start),
                           [&](int i) { return target_probs(i); },
                           [&](int i) { return tree.probs(tree.trials(i - 1).front()); }};
  const auto [accepted, token] = verify_block(block, random(), residual());
  context.resize(start);
  round.end = RoundEnd::kStopped;
  for (int node = 0; node < accepted && !generation.finished(); node++) {
    context.push_back(tree.node(node).token);
    generation.push(context.back());
    round.path.push_back(node);
    round.tested_at.push_back(1);
    round.accepted++;
  }
  if (generation.finished()) return;
  context.push_back(token);
  generation.push(token);
  const bool all = accepted == tree.size();
  if (!all) round.tested_at.push_back(1);
  round.end = all ? RoundEnd::kAllAccepted : RoundEnd::kRejected;
}

}  // namespace specdec
