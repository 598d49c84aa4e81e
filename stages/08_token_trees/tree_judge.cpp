#include "stages/08_token_trees/tree_judge.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "stages/08_token_trees/block_verification.h"

namespace specdec {

// [snippet judge-greedily]
void GreedyTreeJudge::judge(const TokenTree& tree, DeviceRows logits, std::vector<TokenId>& context,
                            Generation& generation, TreeRound& round) {
  if (!choices_.empty()) {
    backend_.argmax(logits, std::span(choices_).first(static_cast<std::size_t>(logits.rows)));
  }
  // [task 8.3: walk the tree]
  int node = TokenTree::kRoot;
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
    round.tested_at.push_back(static_cast<int>(trials.size()));
    node = tree.child(node, choice);
    if (node == TokenTree::kRoot) {
      round.end = RoundEnd::kRejected;  // no draft said so: the correction
      break;
    }
    round.path.push_back(node);
    round.accepted++;
  }
  // [end task 8.3]
}
// [end snippet judge-greedily]

TreeJudgingScratch::TreeJudgingScratch(int max_rows, int vocab_size)
    : logits(static_cast<std::size_t>(vocab_size)),
      target_probs(logits.size() * static_cast<std::size_t>(max_rows)),
      owed(logits.size()),
      sampling(vocab_size) {}

TokenId GreedyTreeJudge::choice(DeviceRows logits, int row) const {
  if (choices_.empty()) return argmax(backend_, logits.slice(row, 1));
  const TokenId choice = choices_[static_cast<std::size_t>(row)];
  if (choice < 0) fail_not_numbers();
  return choice;
}

Sampling tree_drafting(const SamplingOptions& options, double draft_temperature,
                       RandomSource& random, bool races) {
  check_sampling_options(options);
  check_temperature(draft_temperature, "--draft-temperature");
  Sampling drafting = {options, &random, races};
  drafting.options.temperature = draft_temperature;
  return drafting;
}

SamplingTreeJudge::SamplingTreeJudge(Backend& backend, RandomSource& random,
                                     const SamplingOptions& options, double draft_temperature,
                                     const NamedSiblingRule& rule,
                                     std::shared_ptr<TreeJudgingScratch> scratch)
    : backend_(backend),
      random_(random),
      options_(options),
      rule_(rule),
      scratch_(std::move(scratch)) {
  drafting_ = tree_drafting(options, draft_temperature, random, rule.races);
}

// [snippet judge-tree]
void SamplingTreeJudge::judge(const TokenTree& tree, DeviceRows logits,
                              std::vector<TokenId>& context, Generation& generation,
                              TreeRound& round) {
  if (rule_.rule == nullptr) return judge_path(tree, logits, context, generation, round);
  int node = TokenTree::kRoot;
  round.end = RoundEnd::kStopped;
  while (!generation.finished()) {
    const auto position = static_cast<int>(context.size());
    const auto target_probs = standardise(logits, node, context);
    const auto trials = tree.trials(node);
    if (trials.empty()) {
      context.push_back(draw(target_probs, position));  // a leaf: the bonus
      generation.push(context.back());
      round.end = RoundEnd::kAllAccepted;
      break;
    }
    const SiblingDecision decision =
        rule_.rule({position, tree, trials, target_probs}, random_, scratch_->owed);
    round.tested_at.push_back(decision.tested);
    context.push_back(decision.token);  // a draft, or the correction
    generation.push(decision.token);
    node = decision.node;
    if (node == TokenTree::kRoot) {
      round.end = RoundEnd::kRejected;
      break;
    }
    round.path.push_back(node);
    round.accepted++;
  }
}
// [end snippet judge-tree]

// [snippet judge-path]
void SamplingTreeJudge::judge_path(const TokenTree& tree, DeviceRows logits,
                                   std::vector<TokenId>& context, Generation& generation,
                                   TreeRound& round) {
  const auto start = static_cast<std::ptrdiff_t>(context.size());
  standardise(logits, TokenTree::kRoot, context);
  for (int node = 0; node < tree.size(); node++) {  // a chain: node i follows node i - 1
    SPECDEC_CHECK(tree.node(node).parent == node - 1 && tree.n_trials() == tree.size(), "a chain");
    context.push_back(tree.node(node).token);
    standardise(logits, node, context);
  }
  const DraftedBlock block{static_cast<int>(start),
                           std::span(context).subspan(static_cast<std::size_t>(start)),
                           [&](int i) { return target_probs(i - 1); },
                           [&](int i) { return tree.probs(tree.trials(i - 1).front()); }};
  const auto [accepted, token] = verify_block(block, random_, scratch_->owed);
  context.resize(static_cast<std::size_t>(start));
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
// [end snippet judge-path]

// As in stage 5, but into the row of a node.
std::span<const double> SamplingTreeJudge::standardise(DeviceRows logits, int node,
                                                       std::span<const TokenId> history) {
  auto& [row, target_probs, owed, sampling] = *scratch_;
  const auto probs =
      std::span(target_probs).subspan(static_cast<std::size_t>(node + 1) * row.size(), row.size());
  backend_.download(logits.row(node + 1), row.data(), row.size() * sizeof(float));
  probabilities(row, history, options_, sampling, probs);
  return probs;
}

TokenId SamplingTreeJudge::draw(std::span<const double> target_probs, int position) {
  if (rule_.races) return random_.race(target_probs, position);
  return random_.token(target_probs, position, Purpose::kTarget);
}

std::span<const double> SamplingTreeJudge::target_probs(int node) const {
  const std::size_t V = scratch_->logits.size();
  return std::span(scratch_->target_probs).subspan(static_cast<std::size_t>(node + 1) * V, V);
}

}  // namespace specdec
