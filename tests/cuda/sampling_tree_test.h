#pragma once
#include <memory>
#include <utility>

#include "common/base/error.h"
#include "stages/08_token_trees/tree_judge.h"
#include "stages/08_token_trees/tree_shape.h"
#include "stages/programs/run/request.h"
#include "tests/cuda/sampling_test.h"

// Random trees for the tests of the device's sampler, and the host's answers.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

constexpr int kLevels = 4, kMostNodes = 24, kMostDrafts = 4;  // the last: after one node
inline constexpr Capacity kRoom{.levels = kLevels,
                                .nodes = kMostNodes,
                                .trials = kMostDrafts * kMostNodes,
                                .probs = kMostDrafts * kMostNodes,
                                .width = kMostNodes,
                                .verified = kMostNodes};

// A node with children from a draft model: row i of the tree's draft_logits.
struct TestBranch {
  int node = Drafts::kRoot;
  TreeShape::Wish wish = {};
  int first_index = 0;
  int first_probs = Drafts::kCertain;  // the index of its first distribution
  int position = 0;
  std::vector<TokenId> path = {};
  std::vector<Drafts::Trial> trials = {};  // the host's drafts
};

// A tree grown by the host's shapes, with a random choice of shape for each node.
struct TestTree {
  TestTree(const NamedSiblingRule& rule_, int V_)
      : rule(&rule_), V(V_), tree(kRoom, V_), logits(kMostNodes + 1, V_), draft_logits(0, 0) {}

  const NamedSiblingRule* rule;
  int V;
  std::uint64_t seed = 0;
  std::vector<TokenId> history = {};
  SamplingOptions options = {};
  Drafts tree;
  TestRows logits;  // [kMostNodes + 1, V], of which the tree uses the first
  TestRows draft_logits;
  std::vector<TestBranch> branches = {};

  int position() const { return static_cast<int>(history.size()); }  // of the first drafts
  bool is_path() const { return rule->rule == nullptr; }
  int level_draws() const { return is_path() ? draw_index(1, 0) : 0; }
};

// A shape for one node, with up to a given number of drafts.
inline std::unique_ptr<TreeShape> random_shape(TestNumbers& numbers, const NamedSiblingRule& rule,
                                               int most) {
  const int count = numbers.between(1, most);
  const int kind = rule.needs_same_draws ? 0 : numbers.below(3);
  if (kind == 0) return std::make_unique<Chains>(count, kLevels);
  if (kind == 1) return std::make_unique<DistinctDrafts>(std::vector<int>(kLevels, count));
  return std::make_unique<GrownTree>(1, count, kLevels);
}

// The draft's logits at a node, and the trials that the host's shape adds.
inline void branch_on_host(TestNumbers& numbers, TestTree& test, int node, int most,
                           int& next_draw) {
  Drafts& tree = test.tree;
  const auto shape = random_shape(numbers, *test.rule, most);
  TestBranch branch{.node = node, .wish = shape->wish(tree, node), .first_index = next_draw};
  for (int n = node; n != Drafts::kRoot; n = tree.node(n).parent) {
    branch.path.insert(branch.path.begin(), tree.node(n).token);
  }
  branch.position = test.position() + static_cast<int>(branch.path.size());
  const int row = static_cast<int>(test.branches.size());
  float* draft_logits = test.draft_logits.row(row);
  random_draft_logits(numbers, test.logits.row(node + 1), draft_logits, test.V);
  std::vector<TokenId> text = test.history;
  text.insert(text.end(), branch.path.begin(), branch.path.end());
  const auto probs =
      host_probs(test.draft_logits.view(), row, row_sampling(test.options, text), test.V);
  Dice dice(test.seed);
  TreeDraws draws(&dice, test.rule->races(), branch.position, next_draw);
  shape->branch(tree, node, probs, draws);
  next_draw += branch.wish.count;
  const auto trials = tree.trials(node);
  branch.trials.assign(trials.begin(), trials.end());
  branch.first_probs = trials.front().probs;
  test.branches.push_back(std::move(branch));
}

// Grows level after level; for a rule that judges whole paths, a chain. Some nodes stay leaves.
inline void grow(TestNumbers& numbers, TestTree& test) {
  test.draft_logits = TestRows(kMostNodes + 1, test.V);
  const bool path = test.is_path();
  int first = Drafts::kRoot;
  for (int level = 0, levels = numbers.below(kLevels + 1); level < levels; ++level) {
    const int end = level == 0 ? 0 : test.tree.size();
    int next_draw = level * test.level_draws();
    for (int node = first; node < end; ++node) {
      const bool full = kMostNodes - test.tree.size() < kMostDrafts;
      if (full || (!path && level > 0 && numbers.below(4) == 0)) continue;
      branch_on_host(numbers, test, node, path ? 1 : kMostDrafts, next_draw);
    }
    first = end;
  }
}

inline TestTree random_tree(TestNumbers& numbers, const NamedSiblingRule& rule, int V) {
  TestTree test(rule, V);
  test.seed = numbers.bits() * std::uint64_t{0x100000003};
  test.history = random_history(numbers, V, numbers.below(20));
  test.options = {.temperature = 1};
  if (numbers.below(3) == 0) test.options = random_options(numbers, V);
  if (numbers.below(3) == 0) test.options.repetition_penalty = 1.5;
  for (int row = 0; row <= kMostNodes; ++row) random_logits(numbers, test.logits.row(row), V);
  grow(numbers, test);
  return test;
}

// The result for a tree.
struct TreeOutcome {
  std::vector<int> path, tested;
  TokenId token = -1;

  bool operator==(const TreeOutcome&) const = default;
};

// SamplingTreeJudge of stage 8, to the end of the path.
inline TreeOutcome host_outcome(TestTree& test) {
  static const std::unique_ptr<Backend> backend = make_plain_backend();
  Dice dice(test.seed);
  SamplingTreeJudge judge(*backend, dice,
                          {.sampling = test.options, .draft_temperature = test.options.temperature},
                          *test.rule, std::make_shared<JudgingScratch>(kMostNodes, test.V));
  std::vector<TokenId> context = test.history;
  GenerationRequest request;
  request.max_new_tokens = kLevels + 2;
  Generation generation(request, nullptr);
  Round round;
  const DeviceRows logits = test.logits.view().slice(0, test.tree.size() + 1);
  try {
    judge.judge(test.tree, logits, context, generation, round);
  } catch (const Error&) {
    return {round.path, round.tested_at, -1};
  }
  return {round.path, round.tested_at, context.back()};
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
