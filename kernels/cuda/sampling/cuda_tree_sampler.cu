// CudaSampler's calls for trees of drafts.
#include <algorithm>

#include "kernels/cuda/sampling/cuda_sampler.h"
#include "kernels/cuda/sampling/sampling_philox.h"
#include "kernels/cuda/sampling/tree_tasks.h"
#include "kernels/int_size.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

using cpu::require;

// Checks that nodes and trials form a tree, or a chain if the rule needs one.
void require_tree(const DraftedTree& tree, int vocab_size) {
  const int nodes = int_size(tree.nodes);
  require(tree.logits.rows == nodes + 1, "a row of logits for the root and for each node");
  for (int i = 0; i < nodes; ++i) {
    const DraftedNode& node = tree.nodes[i];
    require(node.token >= 0 && node.token < vocab_size, "drafts of the vocabulary");
    require(node.parent >= -1 && node.parent < i, "parents before their nodes");
    require(tree.rule.judge != JudgeTree::kPath || node.parent == i - 1, "a chain");
  }
  for (const DraftedTrial& trial : tree.trials) {
    require(trial.node >= 0 && trial.node < nodes, "trials of the tree's nodes");
  }
  require(tree.rule.judge != JudgeTree::kPath || tree.trials.size() == tree.nodes.size(),
          "a chain with a trial a node");
}

// Whether both have a penalty over the same history, so that one copy is enough.
bool same_history(const RowSampling& a, const RowSampling& b) {
  return a.repetition_penalty != 1 && b.repetition_penalty != 1 &&
         a.history.data() == b.history.data() && a.history.size() == b.history.size();
}

}  // namespace

std::size_t tree_task_bytes(const SamplerRoom& room) {
  constexpr std::size_t kAligned = CudaSampler::kAlignment;
  const std::size_t path = room.levels * sizeof(std::int32_t) + kAligned;
  return room.rows * (std::max(sizeof(BranchTask), sizeof(NodeTask)) + path) +
         room.rounds * sizeof(TreeTask) + room.trials * sizeof(TrialTask) + kAligned;
}

std::size_t tree_result_bytes(const SamplerRoom& room) {
  return room.trials * sizeof(BranchToken) +
         room.rounds * (sizeof(TreeVerdict) + room.levels * sizeof(TestedPlace));
}

void CudaSampler::send_path(std::span<const std::int32_t> path, RowTask& row) {
  if (row.repetition_penalty == 1 || path.empty()) return;
  const auto ids = tasks_.take<std::int32_t>(path.size());
  std::ranges::copy(path, ids.host);
  row.path = ids.device;
  row.path_size = int_size(path);
}

void CudaSampler::branch(ConstDeviceRows logits, std::span<const Branch> branches,
                         std::span<BranchToken> tokens) {
  require(logits.rows <= room_.rows, "rows within the sampler's room");
  require(int_size(branches) == logits.rows, "a branch for each row");
  if (logits.rows == 0) return;
  begin_tasks();
  begin_results();
  const auto chosen = results_.take<BranchToken>(tokens.size());
  const auto row_tasks = tasks_.take<RowTask>(branches.size());
  const auto draws = tasks_.take<DrawTask>(branches.size());  // none: branch_rows() draws
  std::fill_n(draws.host, branches.size(), DrawTask{});
  const auto tasks = tasks_.take<BranchTask>(branches.size());
  const Rows rows = make_rows(row_tasks, logits.rows);
  int first = 0;
  const std::int32_t* history = nullptr;
  for (int r = 0; r < logits.rows; ++r) {
    const Branch& branch = branches[r];
    const bool distinct = branch.by == BranchBy::kDistinctDraws;
    require(!distinct || branch.probs != nullptr, "memory for what distinct drafts are drawn from");
    if (r == 0 || !same_history(branches[r - 1].sampling, branch.sampling)) {
      history = send_history(branch.sampling, {});
    }
    row_tasks.host[r] =
        row_task(logits, r, branch.sampling, history, int_size(branch.sampling.history),
                 branch.probs && !distinct ? branch.probs : own_probs(r));
    send_path(branch.path, row_tasks.host[r]);
    tasks.host[r] = {.by = branch.by,
                     .races = branch.races,
                     .count = branch.count,
                     .position = branch.position,
                     .seed = branch.seed,
                     .purpose = branch.purpose,
                     .first_index = branch.first_index,
                     .probs = branch.probs,
                     .tokens = chosen.device + first};
    first += branch.count;
  }
  require(first == int_size(tokens), "as many tokens as the branches have");
  const Filters filters = filters_of(std::span(row_tasks.host, branches.size()));
  send_tasks();
  queue_.add_few(graph_key(user_, rows.tasks, rows.states, tasks.device, rows.count, filters.key()),
                 [=, this] {
                   make_distributions(rows, filters, draws.device, own_tokens_.data(), stream_);
                   branch_rows(rows, tasks.device, stream_);
                 });
  download_results();
  std::copy_n(chosen.host, tokens.size(), tokens.begin());
}

struct CudaSampler::TreeLists {
  Pieces::Piece<RowTask> rows;
  Pieces::Piece<DrawTask> draws;
  Pieces::Piece<NodeTask> nodes;
  Pieces::Piece<TrialTask> trials;
  int row = 0, trial = 0;  // the number so far
};

void CudaSampler::send_tree(const DraftedTree& tree, TreeLists& lists) {
  NodeTask* nodes = lists.nodes.host + lists.row;
  RowTask* rows = lists.rows.host + lists.row;
  const std::int32_t* history = send_history(tree.sampling, {});
  for (int r = 0; r < tree.logits.rows; ++r) {
    nodes[r] = {r == 0 ? -1 : tree.nodes[r - 1].token, 0, 0};
    rows[r] = row_task(tree.logits, r, tree.sampling, history, int_size(tree.sampling.history),
                       own_probs(lists.row + r));
    path_.clear();
    for (int node = r - 1; node >= 0; node = tree.nodes[node].parent) {
      path_.push_back(tree.nodes[node].token);
    }
    require(int_size(path_) <= room_.levels, "levels within the sampler's room");
    send_path(path_, rows[r]);
    // The target's own tokens: the bonus, and those that some rules compare drafts with.
    lists.draws.host[lists.row + r] = {true, tree.rule.draft.own_token,
                                       tree.position + int_size(path_), tree.seed, kDrawTarget};
  }
  for (const DraftedTrial& trial : tree.trials) {
    NodeTask& parent = nodes[tree.nodes[trial.node].parent + 1];
    if (parent.trials == 0) parent.first_trial = lists.trial;
    require(parent.first_trial + parent.trials++ == lists.trial,
            "the trials after one node together");
    lists.trials.host[lists.trial++] = {trial.probs, trial.node};
    require(tree.rule.judge != JudgeTree::kTogether ||
                (trial.probs && trial.probs == lists.trials.host[parent.first_trial].probs),
            "drafts from one distribution");
  }
  lists.row += tree.logits.rows;
}

void CudaSampler::judge_trees(std::span<const DraftedTree> trees, std::span<TreeVerdict> verdicts,
                              std::span<TestedPlace> places) {
  const int tree_count = int_size(trees);
  int row_count = 0, trial_count = 0;
  for (const DraftedTree& tree : trees) {
    require_tree(tree, room_.vocab_size);
    row_count += tree.logits.rows;
    trial_count += int_size(tree.trials);
  }
  require(row_count <= room_.rows && tree_count <= room_.rounds && trial_count <= room_.trials,
          "trees within the sampler's room");
  require(verdicts.size() == trees.size() && int_size(places) == tree_count * room_.levels,
          "a verdict for each tree, and a place for each of its levels");
  if (trees.empty()) return;
  begin_tasks();
  begin_results();
  const auto tasks = tasks_.take<TreeTask>(trees.size());
  TreeLists lists{.rows = tasks_.take<RowTask>(row_count),
                  .draws = tasks_.take<DrawTask>(row_count),
                  .nodes = tasks_.take<NodeTask>(row_count),
                  .trials = tasks_.take<TrialTask>(trial_count)};
  const Rows rows = make_rows(lists.rows, row_count);
  for (int t = 0; t < tree_count; ++t) {
    const DraftedTree& tree = trees[t];
    tasks.host[t] = {lists.row, tree.logits.rows - 1, tree.position, tree.level_draws, tree.rule,
                     tree.seed};
    send_tree(tree, lists);
  }
  const Filters filters = filters_of(std::span(lists.rows.host, row_count));
  send_tasks();

  const auto verdict = results_.take<TreeVerdict>(trees.size());
  const auto place = results_.take<TestedPlace>(places.size());
  const TreeTasks judged = {tasks.device,        lists.nodes.device, own_tokens_.data(),
                            lists.trials.device, room_.levels,       verdict.device,
                            place.device};
  const DrawTask* draws = lists.draws.device;
  queue_.add_few(
      graph_key(user_, judged.trees, rows.tasks, rows.states, judged.nodes, judged.trials,
                judged.verdicts, judged.places, tree_count, rows.count, filters.key()),
      [=, this] {
        make_distributions(rows, filters, draws, own_tokens_.data(), stream_);
        cuda::judge_trees(rows, judged, tree_count, stream_);
      });
  download_results();
  std::copy_n(verdict.host, verdicts.size(), verdicts.begin());
  std::copy_n(place.host, places.size(), places.begin());
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
