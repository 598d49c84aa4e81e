// In a decode loop on a device, only ids, counts and flags are copied to the host, no memory is
// allocated, and the host waits as rarely as possible. The emulation counts all of these.
#include <optional>

#include "common/speculation/device_draft_sampler.h"
#include "kernels/cuda_backend.h"
#include "stages/04_greedy_speculation/greedy_drafter.h"
#include "stages/04_greedy_speculation/greedy_speculation.h"
#include "stages/05_rejection_sampling/rejection_sampling.h"
#include "stages/07_adaptive_drafting/adaptive_round.h"
#include "stages/programs/run/request.h"
#include "stages/programs/sampling/speculation_options.h"
#include "tests/cuda/calls.h"
#include "tests/engine_fixture.h"

namespace specdec {
namespace {

constexpr int kMostTokens = 24, K = 5;
constexpr std::size_t kVocabularyBytes = 4096 * sizeof(float);

struct Decoded {
  emulation::Traffic traffic;  // of all rounds
  emulation::Traffic round;    // of the last one with all its drafts
  int rounds = 0, drafted = 0;
  std::size_t graphs = 0, graph_nodes = 0;  // at the end
  double acceptance_prob = 0;               // of all tested drafts
  std::vector<TokenId> tokens;
};

// A target and a draft with the same weights.
struct Pair {
  Pair(const LlamaModel& model, int positions)
      : target(model, 16, positions), draft(model, 16, positions) {}

  CachedLlama target, draft;
};

// Whether the host reads each draft before the next step, or the device continues by itself.
enum class DraftOn { kHost, kDevice };

// Decodes with a self-draft. round: one round of it.
template <typename RoundOf>
Decoded decode(DraftAndVerify& steps, const GenerationRequest& request, const RoundOf& round) {
  Decoded run;
  Generation generation(request, nullptr);
  std::vector<TokenId> context = request.prompt;
  steps.prefill(context);
  const emulation::Traffic before = emulation::traffic();
  while (!generation.finished()) {
    const emulation::Traffic before_round = emulation::traffic();
    const Round done = round(context, generation);
    run.drafted += done.drafted;
    run.acceptance_prob += done.sum_acceptance_prob;
    run.rounds++;
    if (done.drafted == steps.spec_length()) run.round = emulation::traffic() - before_round;
  }
  run.traffic = emulation::traffic() - before;
  run.graphs = emulation::traffic().graphs;
  run.graph_nodes = emulation::traffic().graph_nodes;
  run.tokens.assign(generation.tokens().begin(), generation.tokens().end());
  return run;
}

class DeviceLoopTest : public ::testing::Test {
 protected:
  DeviceLoopTest() {
    request_.prompt = {3840, 100, 200, 300};
    request_.max_new_tokens = 14;
  }

  Decoded decode_greedily(int spec_length, DraftOn draft_on) {
    Pair pair(*model_, kPositions);
    std::unique_ptr<Drafter> drafter =
        std::make_unique<GreedyDrafter>(pair.draft.llama, kPositions + 1);
    if (draft_on == DraftOn::kDevice) {
      drafter = make_greedy_drafter(pair.draft.llama, {.context = kPositions}, 0);
    }
    DraftAndVerify steps(pair.target.llama, *drafter, spec_length, kPositions);
    return decode(steps, request_, [&](std::vector<TokenId>& context, Generation& generation) {
      return greedy_round(steps, context, generation);
    });
  }

  Calls greedy_calls(int spec_length, DraftOn draft_on) {
    return calls(decode_greedily(spec_length, draft_on).round);
  }
  Calls sampled_calls(DraftOn draft_on) {
    penalty_ = 1;
    return calls(sample("rejection", KeepProbs::kBesideLogits, draft_on).round);
  }
  Calls adaptive_calls() {
    stage_ = 7;
    const Calls calls = sampled_calls(DraftOn::kDevice);
    stage_ = 5;
    return calls;
  }

  void set_graphs(bool on) {
    setenv("SPECDEC_CUDA_GRAPHS", on ? "1" : "0", 1);
    model_.reset();
    backend_ = make_emulated_backend();
    model_.emplace(Checkpoint(golden_model("draft")), *backend_);
  }
  static void set_early(bool on) { setenv("SPECDEC_CUDA_EARLY", on ? "1" : "0", 1); }
  void TearDown() override {
    unsetenv("SPECDEC_CUDA_GRAPHS");
    unsetenv("SPECDEC_CUDA_EARLY");
  }

  Decoded sample(std::string_view rule, KeepProbs keep, DraftOn draft_on = DraftOn::kDevice) {
    Pair pair(*model_, kPositions);
    const int V = pair.draft.llama.vocab_size();
    auto drafter = sampled_drafting(keep).make(pair.draft.llama, {.context = kPositions}, V);
    if (draft_on == DraftOn::kHost) {
      drafter = std::make_unique<ModelDrafter>(
          pair.draft.llama, std::make_unique<DeviceDraftSampler>(*backend_, V, kPositions + 1, 1),
          kPositions + 1);
    }
    const bool on_device = keep == KeepProbs::kBesideLogits;
    DraftAndVerify steps(pair.target.llama, *drafter, fixed_spec_length(K), kPositions,
                         Drafts(K, V, on_device ? backend_.get() : nullptr));
    const SpeculationOptions options{
        {.temperature = 0.9, .top_p = 0.95, .repetition_penalty = penalty_},
        1.2,
        &find_acceptance_rule(rule)};
    Dice dice(5);
    const auto judge = make_judge(steps, dice, options, overlaps_);
    return decode(steps, request_, [&](std::vector<TokenId>& context, Generation& generation) {
      return stage_ == 7 ? adaptive_round(steps, *judge, context, generation)
                         : sampled_round(steps, *judge, context, generation);
    });
  }

  static constexpr int kPositions = 4 + kMostTokens + K + 1;
  std::unique_ptr<Backend> backend_ = make_emulated_backend();
  std::optional<LlamaModel> model_{std::in_place, Checkpoint(golden_model("draft")), *backend_};
  GenerationRequest request_;
  double penalty_ = 1.1;
  int stage_ = 5;  // whose round samples
  Overlaps overlaps_ = Overlaps::kCounted;
};

TEST_F(DeviceLoopTest, SampledRoundsBringBackIdsAlone) {
  for (const NamedRule& rule : acceptance_rules()) {
    SCOPED_TRACE(rule.name);
    const Decoded run = sample(rule.name, KeepProbs::kBesideLogits);
    const auto passes = static_cast<std::size_t>(run.rounds + run.drafted);
    EXPECT_EQ(run.traffic.allocations, 0u);
    // A token for each draft; token, count and K acceptance probabilities for each round.
    EXPECT_LE(run.traffic.bytes_to_host, passes * 64);
    EXPECT_GT(run.traffic.bytes_to_host, 0u);
    EXPECT_LE(run.traffic.bytes_to_device, passes * 2048) << "descriptors, ids and places";

    const Decoded on_host = sample(rule.name, KeepProbs::kOnHost);
    EXPECT_EQ(run.tokens, on_host.tokens);
    EXPECT_GE(on_host.traffic.bytes_to_host, kVocabularyBytes * on_host.tokens.size()) << "control";
  }
}

TEST_F(DeviceLoopTest, OverlapsAreALaunchWhereTheyAreAskedForAndNoTokenDependsOnThem) {
  set_graphs(false);
  const Decoded counted = sample("rejection", KeepProbs::kBesideLogits);
  overlaps_ = Overlaps::kNotCounted;
  const Decoded run = sample("rejection", KeepProbs::kBesideLogits);
  EXPECT_EQ(run.tokens, counted.tokens);
  EXPECT_EQ(run.round.launches + 1, counted.round.launches);
  EXPECT_GT(counted.acceptance_prob, 0);
  EXPECT_EQ(run.acceptance_prob, 0);
}

TEST_F(DeviceLoopTest, GreedyRoundsBringBackIdsAlone) {
  const Decoded run = decode_greedily(K, DraftOn::kDevice);
  EXPECT_EQ(run.traffic.allocations, 0u);
  const int choices = run.drafted + run.rounds;  // of all rows of the verifications
  EXPECT_EQ(run.traffic.bytes_to_host, std::size_t(run.drafted + choices) * sizeof(TokenId));
}

// Two models of two layers; a pass has 19 launches. A round of K = 5 has six passes. With top-p, a
// draw has 6 launches, and judging has 8: two after the distributions. The host must wait for the
// drafts, because it uploads them as the rows of the verification, and for the verdict or the
// target's choices.
TEST_F(DeviceLoopTest, ARoundHasTheseCalls) {
  request_.max_new_tokens = 24;  // four rounds: the last one has nothing new to record
  // [snippet calls]
  //                                              launches, graphs, uploads, downloads, waits
  set_graphs(false);
  EXPECT_EQ(greedy_calls(0, DraftOn::kHost), (Calls{20, 0, 1, 1, 1}));
  EXPECT_EQ(greedy_calls(5, DraftOn::kHost), (Calls{120, 0, 6, 6, 6}));
  EXPECT_EQ(greedy_calls(5, DraftOn::kDevice), (Calls{120, 0, 6, 2, 2}));
  EXPECT_EQ(sampled_calls(DraftOn::kHost), (Calls{152, 0, 12, 6, 6}));
  EXPECT_EQ(sampled_calls(DraftOn::kDevice), (Calls{152, 0, 12, 2, 2}));
  EXPECT_EQ(adaptive_calls(), (Calls{152, 0, 12, 2, 2}));  // of stage 7
  set_graphs(true);
  EXPECT_EQ(greedy_calls(0, DraftOn::kHost), (Calls{0, 1, 1, 0, 1}));
  EXPECT_EQ(greedy_calls(5, DraftOn::kHost), (Calls{0, 6, 6, 0, 6}));
  EXPECT_EQ(greedy_calls(5, DraftOn::kDevice), (Calls{0, 2, 2, 0, 2}));
  EXPECT_EQ(sampled_calls(DraftOn::kHost), (Calls{0, 6, 6, 0, 6}));
  EXPECT_EQ(sampled_calls(DraftOn::kDevice), (Calls{0, 2, 2, 0, 2}));
  EXPECT_EQ(adaptive_calls(), (Calls{0, 2, 2, 0, 2}));
  // [end snippet calls]
}

// Histories grow, but uploads have few sizes. The host reads each draft, because a penalty needs
// it.
TEST_F(DeviceLoopTest, PenalisedRoundsAreGraphs) {
  request_.max_new_tokens = 18;
  const Decoded run = sample("rejection", KeepProbs::kBesideLogits);
  EXPECT_EQ(calls(run.round), (Calls{0, 6, 6, 0, 6}));
}

// Each rule judges in one call. The text does not depend on graphs or on kernels that begin early.
TEST_F(DeviceLoopTest, GraphsAndEarlyKernelsChangeNothing) {
  penalty_ = 1;
  for (const NamedRule& rule : acceptance_rules()) {
    SCOPED_TRACE(rule.name);
    set_graphs(false);
    set_early(false);
    const Decoded one_by_one = sample(rule.name, KeepProbs::kBesideLogits);
    const std::size_t envelope = rule.on_device->envelope ? 1 : 0;
    EXPECT_EQ(calls(one_by_one.round), (Calls{152 + envelope, 0, 12, 2, 2}));
    EXPECT_EQ(one_by_one.traffic.early, 0u);
    set_graphs(true);
    set_early(true);
    const Decoded recorded = sample(rule.name, KeepProbs::kBesideLogits);
    EXPECT_EQ(recorded.tokens, one_by_one.tokens);
    EXPECT_GT(recorded.traffic.graph_launches, 0u);
    EXPECT_LT(recorded.traffic.launches, one_by_one.traffic.launches);
    EXPECT_GT(recorded.traffic.early, one_by_one.traffic.launches / 2);
    EXPECT_EQ(calls(recorded.round).waits, 2u);
  }
}

// Four rounds. In the first one, the prompt's parcels come before those of the drafts, so the
// passes of the second round find theirs elsewhere, and are new. The third round records the draft
// loop; the second records the verification. The download is a node; the parcels of all steps go in
// one copy before the graph.
TEST_F(DeviceLoopTest, GraphsHaveTheseNodes) {
  request_.max_new_tokens = 24;
  const Decoded run = decode_greedily(K, DraftOn::kDevice);
  ASSERT_EQ(run.rounds, 4);
  const std::size_t pass = 19, loop = 5 * (pass + 1) + 1, verification = pass + 1 + 1;
  EXPECT_EQ(run.graphs, 1u + 1);
  EXPECT_EQ(run.graph_nodes, loop + verification);
}

// All kernels that do not come after a copy: with graphs, all but the first of the draft loop and
// of the verification.
TEST_F(DeviceLoopTest, KernelsBeginEarly) {
  request_.max_new_tokens = 24;
  set_graphs(false);
  const Decoded one_by_one = decode_greedily(K, DraftOn::kDevice);
  EXPECT_EQ(one_by_one.round.early, 6 * 19u);
  set_graphs(true);
  const Decoded recorded = decode_greedily(K, DraftOn::kDevice);
  EXPECT_EQ(recorded.round.early, 6 * 20u - 2);
  set_early(false);
  const Decoded in_order = decode_greedily(K, DraftOn::kDevice);
  EXPECT_EQ(in_order.round.early, 0u);
  EXPECT_EQ(one_by_one.tokens, in_order.tokens);
  EXPECT_EQ(recorded.tokens, in_order.tokens);
}

}  // namespace
}  // namespace specdec
