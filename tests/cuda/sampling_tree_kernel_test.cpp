// Drafting and judging trees on the device: every token and every decision equals that of the
// host's shapes and rules.
#include "tests/cuda/sampling_tree_test.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

class SamplingTreeKernel : public KernelTest {};

// A tree on the device. Its drafts are drawn there again, so if both models have the same logits,
// both distributions have the same bits.
class DeviceTree {
 public:
  explicit DeviceTree(const TestTree& test)
      : test_(test),
        logits_(test.logits.view().slice(0, test.tree.size() + 1), 2),
        probs_(std::vector<double>(index_of(kRoom.probs * test.V), double{kNan})) {
    for (int i = 0; i < test.tree.size(); ++i) {
      nodes_.push_back({test.tree.node(i).token, test.tree.node(i).parent});
    }
    for (const Drafts::Trial& trial : test.tree.trials()) {
      const bool certain = trial.probs == Drafts::kCertain;
      trials_.push_back({trial.node, certain ? nullptr : probs(trial.probs)});
    }
    draft();
  }

  // The number of tokens that differ from the host's in id or probability.
  int wrong_drafts() const {
    int wrong = 0;
    std::size_t at = 0;
    for (const TestBranch& branch : test_.branches) {
      const double root = node_prob(branch.node);
      for (int k = 0; k < branch.wish.count; ++k, ++at) {
        const bool drafted = k < std::ssize(branch.trials);
        if (!drafted) {
          wrong += tokens_[at].token != -1;
          continue;
        }
        const Drafts::Node& node = test_.tree.node(branch.trials[index_of(k)].node);
        const double want = node.draft_prob, got = root * tokens_[at].prob;
        wrong += tokens_[at].token != node.token || !(std::fabs(got - want) <= 1e-12 * want);
      }
    }
    return wrong;
  }

  DraftedTree drafted() const {
    return {.logits = logits_.view(),
            .nodes = nodes_,
            .trials = trials_,
            .sampling = row_sampling(test_.options, test_.history),
            .rule = *test_.rule->on_device,
            .seed = test_.seed,
            .position = test_.position(),
            .level_draws = test_.level_draws()};
  }
  std::vector<double> all_probs() const { return probs_.get(); }

 private:
  double* probs(int number) const { return probs_.data() + std::ptrdiff_t{number} * test_.V; }
  double node_prob(int node) const {
    return node == Drafts::kRoot ? 1 : test_.tree.node(node).draft_prob;
  }
  void draft() {
    std::vector<Branch> branches;
    std::size_t count = 0;
    for (const TestBranch& branch : test_.branches) {
      const bool certain = branch.first_probs == Drafts::kCertain;
      branches.push_back({.sampling = row_sampling(test_.options, test_.history),
                          .path = branch.path,
                          .by = branch.wish.by,
                          .count = branch.wish.count,
                          .races = test_.rule->races(),
                          .seed = test_.seed,
                          .position = branch.position,
                          .purpose = static_cast<std::uint32_t>(Purpose::kDraft),
                          .first_index = branch.first_index,
                          .probs = certain ? nullptr : probs(branch.first_probs)});
      count += index_of(branch.wish.count);
    }
    const int rows = static_cast<int>(branches.size());
    if (rows == 0) return;
    tokens_.assign(count, {-2, -1});
    const auto sampler = device().make_sampler({.vocab_size = test_.V,
                                                .rows = rows,
                                                .history = test_.position(),
                                                .trials = static_cast<int>(count),
                                                .levels = kLevels});
    sampler->branch(DeviceMatrix(test_.draft_logits.view().slice(0, rows), 1).view(), branches,
                    tokens_);
  }

  const TestTree& test_;
  DeviceMatrix logits_;
  OnDevice<double> probs_;
  std::vector<DraftedNode> nodes_;
  std::vector<DraftedTrial> trials_;
  std::vector<BranchToken> tokens_;
};

std::vector<TreeOutcome> judge(const std::vector<DraftedTree>& trees, int V) {
  SamplerRoom room{
      .vocab_size = V, .rows = 0, .rounds = static_cast<int>(trees.size()), .levels = kLevels};
  for (const DraftedTree& tree : trees) {
    room.rows += tree.logits.rows;
    room.history += static_cast<int>(tree.sampling.history.size());
    room.trials += static_cast<int>(tree.trials.size());
  }
  std::vector<TreeVerdict> verdicts(trees.size(), {-2, -2});
  std::vector<TestedPlace> places(trees.size() * kLevels, {-2, -2});
  device().make_sampler(room)->judge_trees(trees, verdicts, places);
  std::vector<TreeOutcome> outcomes;
  for (std::size_t t = 0; t < trees.size(); ++t) {
    TreeOutcome outcome{.path = {}, .tested = {}, .token = verdicts[t].token};
    for (int level = 0; level < kLevels; ++level) {
      const TestedPlace place = places[t * kLevels + index_of(level)];
      const bool accepted = level < verdicts[t].accepted;
      if (accepted) outcome.path.push_back(place.node);
      EXPECT_TRUE(accepted || place.node == -1);
      if (place.tested > 0) outcome.tested.push_back(place.tested);
    }
    outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

std::vector<TestTree> random_trees(TestNumbers& numbers, const NamedSiblingRule& rule, int V,
                                   int count) {
  std::vector<TestTree> trees;
  for (int i = 0; i < count; ++i) trees.push_back(random_tree(numbers, rule, V));
  return trees;
}

// The device's results for all trees in one call.
std::vector<TreeOutcome> judge_together(const std::vector<TestTree>& trees) {
  std::vector<std::unique_ptr<DeviceTree>> on_device;
  std::vector<DraftedTree> drafted;
  for (const TestTree& tree : trees) {
    on_device.push_back(std::make_unique<DeviceTree>(tree));
    EXPECT_EQ(on_device.back()->wrong_drafts(), 0);
    drafted.push_back(on_device.back()->drafted());
  }
  return judge(drafted, trees.front().V);
}

int count_differences(std::vector<TestTree>& trees, const std::vector<TreeOutcome>& got) {
  int differences = 0;
  for (std::size_t t = 0; t < trees.size(); ++t) differences += host_outcome(trees[t]) != got[t];
  return differences;
}

class EverySiblingRule : public SamplingTreeKernel,
                         public ::testing::WithParamInterface<const NamedSiblingRule*> {
 protected:
  void SetUp() override { SamplingTreeKernel::SetUp(); }
  const NamedSiblingRule& rule() const { return *GetParam(); }
  std::uint32_t seed() const {  // the rule's index
    return static_cast<std::uint32_t>(GetParam() - sibling_rules().data());
  }
};

TEST_P(EverySiblingRule, DecidesAsTheHostDoes) {
  TestNumbers numbers(seed() + 1);
  std::size_t accepted = 0, rejected = 0;
  for (const int V : {1, 2, 3, 8, 20, 50}) {
    for (int repeat = 0; repeat < 4; ++repeat) {
      auto trees = random_trees(numbers, rule(), V, 40);
      const auto outcomes = judge_together(trees);
      EXPECT_EQ(count_differences(trees, outcomes), 0) << V;
      for (const TreeOutcome& outcome : outcomes) {
        accepted += outcome.path.size();
        rejected += outcome.tested.size() > outcome.path.size();
      }
    }
  }
  EXPECT_GT(accepted, 300u);
  EXPECT_GT(rejected, 100u);
}

TEST_P(EverySiblingRule, DecidesAsTheHostDoesWithLargeVocabularies) {
  TestNumbers numbers(seed() + 100);
  for (const int V : {600, 2000}) {
    auto trees = random_trees(numbers, rule(), V, 6);
    EXPECT_EQ(count_differences(trees, judge_together(trees)), 0) << V;
  }
}

TEST_P(EverySiblingRule, ATreeDependsOnItselfAlone) {
  TestNumbers numbers(seed() + 200);
  const auto trees = random_trees(numbers, rule(), 40, 12);
  const auto together = judge_together(trees);
  for (std::size_t t = 0; t < trees.size(); ++t) {
    EXPECT_EQ(judge({DeviceTree(trees[t]).drafted()}, 40), std::vector{together[t]});
  }
}

TEST_P(EverySiblingRule, ABrokenRowCountsWhenItIsReached) {
  TestNumbers numbers(seed() + 300);
  auto trees = random_trees(numbers, rule(), 20, 60);
  int broken = 0;
  for (TestTree& tree : trees) {
    float* row = tree.logits.row(numbers.below(tree.tree.size() + 1));
    if (numbers.below(2) == 0)
      std::fill(row, row + 20, -kInfinity);
    else
      row[numbers.below(20)] = kNan;
    broken += host_outcome(tree).token == -1;
  }
  EXPECT_GT(broken, 10);
  EXPECT_LE(broken, 60);
  EXPECT_EQ(count_differences(trees, judge_together(trees)), 0);
}

TEST_P(EverySiblingRule, AnotherSeedIsAnotherVerdict) {
  TestNumbers numbers(seed() + 500);
  auto trees = random_trees(numbers, rule(), 30, 60);
  std::vector<std::unique_ptr<DeviceTree>> on_device;
  std::vector<DraftedTree> drafted;
  for (const TestTree& tree : trees) {
    on_device.push_back(std::make_unique<DeviceTree>(tree));
    drafted.push_back(on_device.back()->drafted());
  }
  const auto differences = [&](const auto& change) {
    auto changed = drafted;
    for (DraftedTree& tree : changed) change(tree);
    return count_differences(trees, judge(changed, 30));
  };
  EXPECT_EQ(differences([](DraftedTree&) {}), 0);
  EXPECT_GT(differences([](DraftedTree& tree) { tree.seed ^= 1; }), 10);
  EXPECT_GT(differences([](DraftedTree& tree) { tree.position++; }), 10);
}

INSTANTIATE_TEST_SUITE_P(Rules, EverySiblingRule, ::testing::ValuesIn([] {
                           std::vector<const NamedSiblingRule*> rules;
                           for (const auto& rule : sibling_rules()) rules.push_back(&rule);
                           return rules;
                         }()),
                         [](const auto& rule) {
                           std::string name(rule.param->name);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

std::vector<BranchToken> branch(const TestRows& logits, const Branch& asked) {
  std::vector<BranchToken> tokens(index_of(asked.count), {-2, -1});
  device()
      .make_sampler({.vocab_size = logits.width(),
                     .history = static_cast<int>(asked.sampling.history.size()),
                     .trials = asked.count,
                     .levels = kLevels})
      ->branch(DeviceMatrix(logits.view()).view(), {&asked, 1}, tokens);
  return tokens;
}

std::vector<std::int32_t> ids(const std::vector<BranchToken>& tokens) {
  std::vector<std::int32_t> ids;
  for (const BranchToken& token : tokens) ids.push_back(token.token);
  return ids;
}

// Ranks by probability, with the lower id first among equals, and without tokens of probability
// zero.
TEST_F(SamplingTreeKernel, RanksTokens) {
  for (const int V : {5, 700}) {
    TestRows logits(1, V);
    std::fill_n(logits.row(0), V, -kInfinity);
    logits.row(0)[1] = logits.row(0)[3] = 2;
    logits.row(0)[0] = 1;
    logits.row(0)[V - 1] = 3;
    const Branch asked{.sampling = {.temperature = 1}, .by = BranchBy::kLikeliest, .count = 6};
    EXPECT_EQ(ids(branch(logits, asked)), (std::vector{V - 1, 1, 3, 0, -1, -1}));
    std::fill_n(logits.row(0), V, kNan);
    EXPECT_EQ(ids(branch(logits, asked)), std::vector(6, -1));
  }
}

// Draws without replacement end when no probability is left, and each of their distributions
// excludes the earlier tokens.
TEST_F(SamplingTreeKernel, DistinctDraftsTakeEachTokenOnce) {
  TestRows logits(1, 8);
  std::fill_n(logits.row(0), 8, -kInfinity);
  std::fill_n(logits.row(0) + 3, 4, 0.5f);
  const OnDevice<double> probs(std::vector<double>(48, double{kNan}));
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto tokens = ids(branch(logits, {.sampling = {.temperature = 1},
                                            .by = BranchBy::kDistinctDraws,
                                            .count = 6,
                                            .seed = seed,
                                            .probs = probs.data()}));
    const auto rows = probs.get();
    std::vector<bool> taken(8);
    for (int k = 0; k < 4; ++k) {
      for (int i = 0; i < 8; ++i) {
        const bool possible = i >= 3 && i < 7 && !taken[index_of(i)];
        EXPECT_EQ(rows[index_of(k * 8 + i)], possible ? 1.0 / (4 - k) : 0) << k << ", " << i;
      }
      ASSERT_TRUE(tokens[index_of(k)] >= 3 && tokens[index_of(k)] < 7);
      EXPECT_FALSE(taken[index_of(tokens[index_of(k)])]);
      taken[index_of(tokens[index_of(k)])] = true;
    }
    EXPECT_EQ(tokens[4], -1);
    EXPECT_EQ(tokens[5], -1);
  }
}

// A row's history includes the path to its node, so a drafted token is penalised after it, but not
// after its sibling. Both for ranking and for judging.
TEST_F(SamplingTreeKernel, APathIsPenalisedWithItsHistory) {
  TestRows logits(1, 4);
  for (int i = 0; i < 4; ++i) logits.row(0)[i] = 8.0f - 0.5f * static_cast<float>(i);
  const std::vector<std::int32_t> history = {3}, path = {0, 1};
  Branch asked{.sampling = {.temperature = 1, .repetition_penalty = 2, .history = history},
               .by = BranchBy::kLikeliest,
               .count = 4};
  EXPECT_EQ(ids(branch(logits, asked)), (std::vector{0, 1, 2, 3}));
  asked.path = path;
  EXPECT_EQ(ids(branch(logits, asked)), (std::vector{2, 0, 1, 3}));

  // Node 0: token 0; node 1: its sibling, token 1; node 2: token 1 after node 0.
  TestRows tree_logits(4, 4);
  for (int i = 0; i < 16; ++i)
    tree_logits.row(i / 4)[i % 4] = 80.0f - 5.0f * static_cast<float>(i % 4);
  const std::vector<DraftedNode> nodes = {{0, -1}, {1, -1}, {1, 0}};
  const std::vector<DraftedTrial> trials = {{0}, {1}, {2}};
  const DeviceMatrix on_device(tree_logits.view());
  const DraftedTree tree{
      .logits = on_device.view(), .nodes = nodes, .trials = trials, .sampling = asked.sampling};
  const TreeOutcome outcome = judge({tree}, 4).front();
  EXPECT_EQ(outcome.path, (std::vector{0, 2}));
  EXPECT_EQ(outcome.tested, (std::vector{1, 1}));
  EXPECT_EQ(outcome.token, 2);
}

TEST_F(SamplingTreeKernel, NoTreesHaveNoVerdicts) {
  const auto sampler = device().make_sampler({.vocab_size = 5, .levels = 2});
  sampler->judge_trees({}, {}, {});
  sampler->branch({}, {}, {});
}

// Anything but a tree that the rule can judge ends the program.
TEST_F(SamplingTreeKernel, RefusesWhatIsNoTree) {
  const OnDevice<double> probs(std::vector<double>(8, 0.125));
  const DeviceMatrix logits(3, 4);
  const auto refuses = [&](const std::vector<DraftedNode>& nodes,
                           const std::vector<DraftedTrial>& trials, JudgeTree by,
                           const char* message) {
    const DraftedTree tree{
        .logits = logits.view(), .nodes = nodes, .trials = trials, .rule = {.judge = by}};
    EXPECT_DEATH(judge({tree}, 4), message);
  };
  const double *a = probs.data(), *b = probs.data() + 4;
  using enum JudgeTree;
  refuses({{0, -1}}, {{0, a}}, kOneByOne, "a row of logits");
  refuses({{4, -1}, {1, -1}}, {{0, a}, {1, a}}, kOneByOne, "of the vocabulary");
  refuses({{0, 1}, {1, -1}}, {{0, a}, {1, a}}, kOneByOne, "parents before");
  refuses({{0, -1}, {1, 0}}, {{0, a}, {1, a}, {0, a}}, kOneByOne, "together");
  refuses({{0, -1}, {1, -1}}, {{0, a}, {1, a}}, kPath, "a chain");
  refuses({{0, -1}, {1, 0}}, {{0, a}, {0, a}, {1, a}}, kPath, "a chain");
  refuses({{0, -1}, {1, -1}}, {{0, a}, {1, b}}, kTogether, "one distribution");
  refuses({{0, -1}, {1, -1}}, {{0}, {1}}, kTogether, "one distribution");
}

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
