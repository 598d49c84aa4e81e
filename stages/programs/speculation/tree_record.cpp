#include "stages/programs/speculation/tree_record.h"

#include <algorithm>

#include <fmt/format.h>

namespace specdec {
namespace {

bool on_path(const Round& round, int node) {
  return node == Drafts::kRoot || std::ranges::count(round.path, node) > 0;
}

// The verdict of trial k after node `parent`. place: the depth of the trial's token in the tree.
std::string_view verdict(const Round& round, std::span<const Drafts::Trial> trials, int parent,
                         int place, int k, bool at_once) {
  const auto index = static_cast<std::size_t>(place);
  if (!on_path(round, parent) || index >= round.tested_at.size()) return kNotReached;
  const int tested = round.tested_at[index];
  if (k >= tested) return kNotTested;
  const bool right = on_path(round, trials[k].node);
  return right && (at_once || k == tested - 1) ? kAccepted : kRejected;
}

// Records the trials after one node, and the verdicts of the trials and their nodes.
void record_trials(RoundRecord& record, const RoundEvidence& evidence, int parent) {
  const Drafts& tree = *evidence.drafts;
  const auto trials = tree.trials(parent);
  if (trials.empty()) return;
  const int place = tree.node(trials.front().node).depth;
  std::span<const double> target_probs;
  for (int k = 0; k < std::ssize(trials); k++) {
    const Drafts::Trial& trial = trials[k];
    const auto token = static_cast<std::size_t>(tree.node(trial.node).token);
    const auto draft_probs = tree.probs(trial);
    RoundRecord::Trial& tried = record.tree->trials.emplace_back();
    tried.node = trial.node;
    if (!draft_probs.empty()) tried.draft_prob = draft_probs[token];
    tried.verdict = verdict(record.round, trials, parent, place, k, evidence.compares_at_once);
    if (tried.verdict == kAccepted || tried.verdict == kRejected) {
      if (k == 0) target_probs = evidence.target_probs(parent + 1);
      tried.target_prob = target_probs[token];
    }
  }
}

Json to_json(const RoundRecord::Node& node) {
  return {{"token", node.drafted.token}, {"parent", node.drafted.parent},
          {"depth", node.drafted.depth}, {"path_prob", node.drafted.draft_prob},
          {"drafts", node.drafts},       {"verdict", node.verdict}};
}

Json to_json(const RoundRecord::Trial& trial) {
  return {{"node", trial.node},
          {"draft_prob", trial.draft_prob},
          {"target_prob", number_or_null(trial.target_prob)},
          {"verdict", trial.verdict}};
}

// One line for each descendant of a node, depth first.
std::string lines_after(const RoundRecord::Tree& tree, int parent, const Tokenizer* tokenizer,
                        bool colour) {
  std::string text;
  for (int i = parent + 1; i < std::ssize(tree.nodes); i++) {
    const auto& [drafted, drafts, verdict] = tree.nodes[i];
    if (drafted.parent != parent) continue;
    text += verdict_line(verdict, kNotReached.size(),
                         fmt::format("{:{}}{}  path q {:.3f}{}", "", 2 * drafted.depth,
                                     token_text(drafted.token, tokenizer), drafted.draft_prob,
                                     drafts > 1 ? fmt::format("  {} drafts", drafts) : ""),
                         colour);
    text += lines_after(tree, i, tokenizer, colour);
  }
  return text;
}

}  // namespace

std::vector<std::string_view> node_verdicts(const Drafts& tree, const Round& round, bool at_once) {
  std::vector<std::string_view> verdicts(tree.size());
  for (int parent = Drafts::kRoot; parent < tree.size(); ++parent) {
    const auto trials = tree.trials(parent);
    for (int k = 0; k < std::ssize(trials); k++) {
      const int node = trials[k].node;
      const auto of_trial = verdict(round, trials, parent, tree.node(node).depth, k, at_once);
      const bool tested = of_trial == kAccepted || of_trial == kRejected;
      if (verdicts[node].empty() || tested) verdicts[node] = of_trial;
    }
  }
  return verdicts;
}

void record_tree(const RoundEvidence& evidence, RoundRecord& record) {
  const Drafts& tree = *evidence.drafts;
  record.tree = RoundRecord::Tree{};
  const auto verdicts = node_verdicts(tree, record.round, evidence.compares_at_once);
  for (int i = 0; i < tree.size(); ++i) {
    record.tree->nodes.push_back({tree.node(i), tree.drafts_through(i), verdicts[i]});
  }
  for (int parent = Drafts::kRoot; parent < tree.size(); ++parent) {
    record_trials(record, evidence, parent);
  }
}

Json tree_json(const RoundRecord& record) {
  Json nodes = Json::array(), trials = Json::array();
  for (const RoundRecord::Node& node : record.tree->nodes) nodes.push_back(to_json(node));
  for (const RoundRecord::Trial& trial : record.tree->trials) trials.push_back(to_json(trial));
  return {{"nodes", nodes}, {"trials", trials}, {"path", record.round.path}};
}

std::string explain_tree(const RoundRecord& record, int number, const Tokenizer* tokenizer,
                         bool colour) {
  const Round& round = record.round;
  return fmt::format(
             "\nround {}, {} cached: {} nodes for {} drafts on {} levels, {} accepted, {}\n",
             number, round.start, record.tree->nodes.size(), record.tree->trials.size(),
             round.drafted, round.accepted, round_end_name(round.end)) +
         lines_after(*record.tree, Drafts::kRoot, tokenizer, colour);
}

}  // namespace specdec
