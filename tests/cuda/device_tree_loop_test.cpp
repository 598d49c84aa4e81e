// Trees, drafted and judged on the device. The texts equal the host's, round by round, and no array
// of the vocabulary's size is copied. The emulation counts the copies.
#include <optional>

#include "common/sampling/random_source.h"
#include "kernels/cuda_backend.h"
#include "stages/08_token_trees/tree_judge.h"
#include "stages/08_token_trees/tree_round.h"
#include "stages/programs/sampling/device_judge.h"
#include "stages/programs/trees/device_tree_brancher.h"
#include "tests/cuda/calls.h"
#include "tests/cuda/tree_shapes.h"
#include "tests/engine_fixture.h"
#include "tests/tree_steps.h"

namespace specdec {
namespace {

constexpr int kNewTokens = 8, kPositions = 64, kPage = 16;
constexpr std::size_t kVocabularyBytes = 4096 * sizeof(float);

struct Rounds {
  std::vector<TokenId> tokens;
  std::vector<Round> rounds;
  emulation::Traffic traffic, last;  // of all rounds, of the last one
};

bool operator==(const Rounds& a, const Rounds& b) {
  const auto same = [](const Round& x, const Round& y) {
    return x.path == y.path && x.tested_at == y.tested_at && x.accepted == y.accepted &&
           x.drafted == y.drafted && x.end == y.end;
  };
  return a.tokens == b.tokens && std::ranges::equal(a.rounds, b.rounds, same);
}

class DeviceTreeLoopTest : public ::testing::Test {
 protected:
  DeviceTreeLoopTest() {
    request_.prompt = {5, 17, 80, 33};
    request_.max_new_tokens = kNewTokens;
  }

  // rule: null for greedy decoding.
  Rounds decode(const LlamaModel& model, const NamedShape& shape, const NamedSiblingRule* rule,
                bool on_host) {
    CachedLlama target(model, kPage, kPositions), draft(model, kPage, kPositions);
    const int V = target.llama.vocab_size();
    const Capacity capacity = capacity_of(shape.make)(5);
    ModelTreeDrafter drafter(draft.llama, shape.make, kPositions, V, 1,
                             on_host ? nullptr : brancher(capacity, V, 1));
    DraftAndVerify steps = tree_steps(target.llama, drafter, 5, kPositions - capacity.nodes,
                                      on_host ? nullptr : backend_.get());
    Dice dice(seed_);
    const SpeculationOptions options{.sampling = options_, .draft_temperature = draft_temperature_};
    std::unique_ptr<RoundJudge> judge;
    if (rule == nullptr) {
      judge = std::make_unique<GreedyTreeJudge>(*backend_, capacity.rows());
    } else {
      auto scratch = std::make_shared<JudgingScratch>(capacity.verified, V);
      auto sampling =
          std::make_unique<SamplingTreeJudge>(*backend_, dice, options, *rule, std::move(scratch));
      if (on_host) {
        judge = std::move(sampling);
      } else {
        judge = judge_on_device(*sampling, target.llama, capacity, Overlaps::kNotCounted,
                                rule->on_device);
      }
    }
    return decode(steps, *judge);
  }

  std::unique_ptr<TreeBrancher> brancher(const Capacity& capacity, int V, int requests) {
    return std::make_unique<DeviceTreeBrancher>(*backend_, capacity, V, kPositions, requests);
  }

  void set_graphs(bool on) {
    setenv("SPECDEC_CUDA_GRAPHS", on ? "1" : "0", 1);
    small_.reset();
    model_.reset();
    backend_ = make_emulated_backend();
    model_.emplace(Checkpoint(golden_model("draft")), *backend_);
    small_.emplace(Checkpoint(golden_model("untied")), *backend_);
  }
  void TearDown() override { unsetenv("SPECDEC_CUDA_GRAPHS"); }

  // In addition, up to four launches move the kept path, one per layer.
  static void expect_calls(const emulation::Traffic& round, const Calls& want) {
    EXPECT_GE(round.launches, want.launches);
    EXPECT_LE(round.launches, want.launches + 4);
    Calls others = calls(round);
    others.launches = want.launches;
    EXPECT_EQ(others, want);
  }

  double draft_temperature_ = 4;
  std::unique_ptr<Backend> backend_ = make_emulated_backend();
  std::optional<LlamaModel> model_{std::in_place, Checkpoint(golden_model("draft")),
                                   *backend_};  // V = 4096
  std::optional<LlamaModel> small_{std::in_place, Checkpoint(golden_model("untied")),
                                   *backend_};  // V = 96
  GenerationRequest request_;
  SamplingOptions options_;
  std::uint64_t seed_ = 7;

 private:
  Rounds decode(DraftAndVerify& steps, RoundJudge& judge) {
    Rounds run;
    Generation generation(request_, nullptr);
    std::vector<TokenId> context = request_.prompt;
    steps.prefill(context);
    const emulation::Traffic before = emulation::traffic();
    while (!generation.finished()) {
      const emulation::Traffic before_round = emulation::traffic();
      run.rounds.push_back(tree_round(steps, judge, context, generation));
      run.last = emulation::traffic() - before_round;
    }
    run.traffic = emulation::traffic() - before;
    run.tokens.assign(generation.tokens().begin(), generation.tokens().end());
    return run;
  }
};

// All rules and shapes; filters and penalties in turn.
TEST_F(DeviceTreeLoopTest, TextsAndRoundsAreTheHosts) {
  const std::vector<SamplingOptions> options = {
      {.temperature = 0.3, .top_p = 0.95, .repetition_penalty = 2},
      {.temperature = 0.4},
      {.temperature = 0.5, .top_k = 20}};
  std::size_t turn = 0;
  int rejected = 0, accepted = 0;
  for (const NamedShape& shape : shapes()) {
    for (const NamedSiblingRule& rule : sibling_rules()) {
      if (!goes_with(rule, shape)) continue;
      SCOPED_TRACE(fmt::format("{}, {}", shape.name, rule.name));
      for (seed_ = 0; seed_ < (shape.name == "distinct" ? 4 : 1); seed_++) {
        options_ = options[turn++ % options.size()];
        const Rounds on_device = decode(*small_, shape, &rule, false);
        EXPECT_TRUE(on_device == decode(*small_, shape, &rule, true));
        EXPECT_EQ(on_device.traffic.allocations, 0u);
        for (const Round& round : on_device.rounds) {
          rejected += round.end == RoundEnd::kRejected;
          accepted += round.accepted;
        }
      }
    }
  }
  EXPECT_GT(rejected, 50);
  EXPECT_GT(accepted, 50);
}

// Whole chains are long enough to tell the draws of their levels apart.
TEST_F(DeviceTreeLoopTest, BlocksAreTheHosts) {
  options_ = {.temperature = 0.5};
  draft_temperature_ = 1;
  for (seed_ = 0; seed_ < 16; seed_++) {
    const NamedSiblingRule& rule = find_sibling_rule("block");
    EXPECT_TRUE(decode(*small_, shapes()[0], &rule, false) ==
                decode(*small_, shapes()[0], &rule, true));
  }
}

// Greedy trees: one call chooses after all nodes.
TEST_F(DeviceTreeLoopTest, GreedyTextsAreTheHosts) {
  options_ = {};
  std::vector<TokenId> text;
  for (const NamedShape& shape : shapes()) {
    SCOPED_TRACE(shape.name);
    const Rounds on_device = decode(*small_, shape, nullptr, false);
    EXPECT_TRUE(on_device == decode(*small_, shape, nullptr, true));
    if (text.empty()) text = on_device.tokens;
    EXPECT_EQ(on_device.tokens, text);
    EXPECT_EQ(on_device.traffic.allocations, 0u);
  }
}

std::vector<std::vector<double>> device_probs(Backend& backend, const Drafts& tree, int V) {
  std::vector<std::vector<double>> all;
  for (const Drafts::Trial& trial : tree.trials()) {
    all.emplace_back(static_cast<std::size_t>(V));
    if (const double* probs = tree.device_probs(trial)) {
      backend.download(probs, all.back().data(), all.back().size() * sizeof(double));
    }
  }
  return all;
}

// Requests with different lengths and levels in one call get the same bits as each gets alone.
TEST_F(DeviceTreeLoopTest, RequestsSideBySideAreDraftedAsAlone) {
  const std::vector<std::vector<TokenId>> contexts = {{5, 17, 80}, {33, 2, 5, 9, 17}, {60, 61}};
  const std::vector<int> levels = {3, 1, 2};
  const int V = small_->config().vocab_size;
  Dice dice(11);
  const Sampling sampling{{.temperature = 1, .top_k = 60, .repetition_penalty = 1.2}, &dice};
  for (const NamedShape& shape : shapes()) {
    SCOPED_TRACE(shape.name);
    const Capacity capacity = capacity_of(shape.make)(5);
    const auto draft = [&](std::vector<Drafts>& trees, std::span<const std::size_t> which) {
      CachedLlama model(*small_, kPage, kPositions, 3);
      ModelTreeDrafter drafter(model.llama, shape.make, kPositions, V, 3, brancher(capacity, V, 3));
      std::vector<DraftRequest> requests;
      for (const std::size_t i : which) {
        requests.push_back({drafter.create(), contexts[i], levels[i], sampling, &trees[i]});
      }
      drafter.draft(requests);
    };
    std::vector<Drafts> together, alone;
    for (int i = 0; i < 3; i++) {
      together.emplace_back(capacity, V, backend_.get());
      alone.emplace_back(capacity, V, backend_.get());
    }
    draft(together, std::vector<std::size_t>{0, 1, 2});
    for (std::size_t i = 0; i < 3; i++) {
      draft(alone, std::span(&i, 1));
      ASSERT_EQ(together[i].size(), alone[i].size());
      EXPECT_EQ(together[i].length(), levels[i]);
      for (int node = 0; node < alone[i].size(); node++) {
        EXPECT_EQ(together[i].node(node).token, alone[i].node(node).token);
        EXPECT_EQ(together[i].node(node).parent, alone[i].node(node).parent);
        EXPECT_EQ(together[i].node(node).draft_prob, alone[i].node(node).draft_prob);
      }
      EXPECT_EQ(device_probs(*backend_, together[i], V), device_probs(*backend_, alone[i], V));
    }
  }
}

// Two models of two layers; a pass has 19 launches. The host waits for each level, to feed its
// tokens, and for the verdict.
TEST_F(DeviceTreeLoopTest, ARoundHasTheseCalls) {
  set_graphs(false);
  options_ = {.temperature = 1};
  request_.max_new_tokens = 5;
  for (const NamedShape& shape : shapes()) {
    SCOPED_TRACE(shape.name);
    const auto levels = static_cast<std::size_t>(shape.make()->levels());
    const Rounds sampled = decode(*model_, shape, &find_sibling_rule("rejection"), false);
    const auto passes = levels + 1, waits = levels + 1;
    // Before each wait three kernels make distributions, and one branches or judges.
    expect_calls(sampled.last, {19 * passes + 4 * waits, 0, passes + waits, waits, waits});
    // An id and a probability per token, a node and a number per level, then the verdict.
    EXPECT_EQ(sampled.last.bytes_to_host, 16 * shape.tokens + 8 * levels + 8);
    EXPECT_LT(sampled.last.bytes_to_device, kVocabularyBytes * 2 / 3) << "lists";

    const Rounds greedy = decode(*model_, shape, nullptr, false);
    expect_calls(greedy.last, {19 * passes + 4 * levels + 1, 0, passes + levels, waits, waits});
    EXPECT_LT(greedy.last.bytes_to_host, 500u);
  }
  const Rounds on_host = decode(*model_, shapes()[0], &find_sibling_rule("rejection"), true);
  EXPECT_GE(on_host.last.bytes_to_host, kVocabularyBytes * 5) << "control";
}

// One graph from wait to wait; its first upload comes before it.
TEST_F(DeviceTreeLoopTest, RoundsAreGraphs) {
  set_graphs(true);
  options_ = {.temperature = 1};
  request_.max_new_tokens = 20;  // within 32 positions: after them, passes are new
  for (const NamedShape& shape : shapes()) {
    SCOPED_TRACE(shape.name);
    const auto waits = static_cast<std::size_t>(shape.make()->levels()) + 1;
    const Rounds sampled = decode(*small_, shape, &find_sibling_rule("rejection"), false);
    const Rounds greedy = decode(*small_, shape, nullptr, false);
    // [snippet tree-calls]
    expect_calls(sampled.last, {0, waits, waits, 0, waits});
    expect_calls(greedy.last, {0, waits, waits, 0, waits});
    // [end snippet tree-calls]
  }
}

}  // namespace
}  // namespace specdec
