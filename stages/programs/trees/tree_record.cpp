#include "stages/programs/trees/tree_record.h"

#include <algorithm>

namespace specdec {
namespace {

constexpr std::string_view kAccepted = "accepted", kRejected = "rejected",
                           kNotTested = "not tested", kNotReached = "not reached";

bool on_path(const TreeRound& round, int node) {
  return node == TokenTree::kRoot || std::ranges::count(round.path, node) > 0;
}

// What became of trial k after a node. place: of its token in the tree.
std::string_view verdict(const TreeRound& round, std::span<const TokenTree::Trial> trials,
                         int parent, int place, int k, bool at_once) {
  const auto index = static_cast<std::size_t>(place);
  if (!on_path(round, parent) || index >= round.tested_at.size()) return kNotReached;
  const int tested = round.tested_at[index];
  if (k >= tested) return kNotTested;
  const bool right = on_path(round, trials[static_cast<std::size_t>(k)].node);
  return right && (at_once || k == tested - 1) ? kAccepted : kRejected;
}

// The target's distributions of the last round, made anew from its logits.
class TargetProbs {
 public:
  TargetProbs(const TreeSteps& steps, std::span<const TokenId> context,
              const SamplingOptions& options)
      : steps_(steps),
        context_(context),
        options_(options),
        logits_(static_cast<std::size_t>(steps.target().vocab_size())),
        probs_(logits_.size()),
        scratch_(steps.target().vocab_size()) {}

  // [V], after a node that `length` tokens of the context end with; valid until the next call.
  std::span<const double> after(int node, int length) {
    steps_.target().backend().download(steps_.logits().row(node + 1), logits_.data(),
                                       logits_.size() * sizeof(float));
    probabilities(logits_, context_.first(static_cast<std::size_t>(length)), options_, scratch_,
                  probs_);
    return probs_;
  }

 private:
  const TreeSteps& steps_;
  std::span<const TokenId> context_;
  SamplingOptions options_;
  std::vector<float> logits_;  // [V]
  std::vector<double> probs_;  // [V]
  SamplingScratch scratch_;
};

// The trials after one node, and their verdicts.
void record_trials(TreeRecord& record, const TokenTree& tree, int parent, bool at_once,
                   TargetProbs& target) {
  const auto trials = tree.trials(parent);
  if (trials.empty()) return;
  const int place = tree.node(trials.front().node).depth;
  std::span<const double> target_probs;
  for (int k = 0; k < std::ssize(trials); k++) {
    const TokenTree::Trial& trial = trials[static_cast<std::size_t>(k)];
    const auto token = static_cast<std::size_t>(tree.node(trial.node).token);
    const auto draft_probs = tree.probs(trial);
    TreeRecord::Trial& tried = record.trials.emplace_back();
    tried.node = trial.node;
    if (!draft_probs.empty()) tried.draft_prob = draft_probs[token];
    tried.verdict = verdict(record.round, trials, parent, place, k, at_once);
    if (tried.verdict == kAccepted || tried.verdict == kRejected) {
      if (k == 0) target_probs = target.after(parent, record.round.start + 1 + place);
      tried.target_prob = target_probs[token];
    }
    // A node has the verdict of its last trial that was tested, or of its first.
    std::string_view& of_node = record.nodes[static_cast<std::size_t>(trial.node)].verdict;
    if (of_node.empty() || tried.target_prob) of_node = tried.verdict;
  }
}

Json to_json(const TreeRecord::Node& node) {
  return {{"token", node.drafted.token}, {"parent", node.drafted.parent},
          {"depth", node.drafted.depth}, {"path_prob", node.drafted.draft_prob},
          {"drafts", node.drafts},       {"verdict", node.verdict}};
}

Json to_json(const TreeRecord::Trial& trial) {
  Json target_prob;  // null where it was not tested
  if (trial.target_prob) target_prob = *trial.target_prob;
  return {{"node", trial.node},
          {"draft_prob", trial.draft_prob},
          {"target_prob", target_prob},
          {"verdict", trial.verdict}};
}

Json last_json(const TreeRecord& record) {
  if (!record.last) return nullptr;
  return {{"position", record.round.start + 1 + record.round.accepted},
          {"token", record.last->token},
          {"kind", record.last->bonus ? "bonus" : "correction"},
          {"prob", record.last->target_prob}};
}

}  // namespace

TreeRecord record_tree(const TreeSteps& steps, const TreeRound& round,
                       std::span<const TokenId> context, const TreeJudging& judging) {
  const TokenTree& tree = steps.tree();
  TargetProbs target(steps, context, judging.options);
  TreeRecord record;
  record.round = round;
  const auto emitted = context.last(static_cast<std::size_t>(round.emitted()));
  record.emitted.assign(emitted.begin(), emitted.end());
  for (int i = 0; i < tree.size(); i++) {
    record.nodes.push_back({tree.node(i), tree.drafts_through(i), {}});
  }
  for (int parent = TokenTree::kRoot; parent < tree.size(); parent++) {
    record_trials(record, tree, parent, judging.at_once, target);
  }
  if (round.end != RoundEnd::kStopped) {
    const int node = round.path.empty() ? TokenTree::kRoot : round.path.back();
    const auto probs = target.after(node, round.start + 1 + round.accepted);
    record.last = {emitted.back(), round.end == RoundEnd::kAllAccepted,
                   probs[static_cast<std::size_t>(emitted.back())]};
  }
  return record;
}

Json to_json(const TreeRecord& record) {
  Json nodes = Json::array(), trials = Json::array();
  for (const TreeRecord::Node& node : record.nodes) nodes.push_back(to_json(node));
  for (const TreeRecord::Trial& trial : record.trials) trials.push_back(to_json(trial));
  Json json = json_of_any_round(record);
  json["tree"] = {{"nodes", nodes}, {"trials", trials}, {"path", record.round.path}};
  json["last"] = last_json(record);
  return json;
}

}  // namespace specdec
