// In a decode loop on a device only ids, counts and flags cross to the host, and no memory is
// taken: counted by the emulation.
#include "kernels/cuda_backend.h"
#include "kernels/emulation/cuda_on_cpu.h"
#include "stages/04_greedy_speculation/greedy_drafter.h"
#include "stages/04_greedy_speculation/greedy_speculation.h"
#include "stages/05_rejection_sampling/rejection_sampling.h"
#include "stages/05_rejection_sampling/sampling_drafter.h"
#include "stages/programs/run/request.h"
#include "stages/programs/sampling/speculation_options.h"
#include "tests/engine_fixture.h"

namespace specdec {
namespace {

constexpr int kNewTokens = 14, K = 3;
constexpr std::size_t kVocabularyBytes = 4096 * sizeof(float);

struct Decoded {
  emulation::Traffic traffic;  // of all rounds
  int rounds = 0, drafted = 0;
  std::vector<TokenId> tokens;
};

// A target and a drafter with the same weights.
struct Pair {
  Pair(const LlamaModel& model, int positions)
      : target(model, 16, positions),
        draft(model, 16, positions),
        drafter(draft.llama, positions + 1) {}

  CachedLlama target, draft;
  SamplingDrafter drafter;
};

// Decodes with a self-draft. round: one round of it.
template <typename RoundOf>
Decoded decode(DraftAndVerify& steps, const GenerationRequest& request, const RoundOf& round) {
  Decoded run;
  Generation generation(request, nullptr);
  std::vector<TokenId> context = request.prompt;
  steps.prefill(context);
  const emulation::Traffic before = emulation::traffic();
  while (!generation.finished()) {
    run.drafted += round(context, generation).drafted;
    run.rounds++;
  }
  const emulation::Traffic& after = emulation::traffic();
  run.traffic = {after.allocations - before.allocations, after.bytes_to_host - before.bytes_to_host,
                 after.bytes_to_device - before.bytes_to_device};
  run.tokens.assign(generation.tokens().begin(), generation.tokens().end());
  return run;
}

class DeviceLoopTest : public ::testing::Test {
 protected:
  DeviceLoopTest() {
    request_.prompt = {3840, 100, 200, 300};
    request_.max_new_tokens = kNewTokens;
  }

  Decoded sample(std::string_view rule, KeepProbs keep) {
    Pair pair(model_, kPositions);
    const int V = pair.draft.llama.vocab_size();
    const auto drafter = sampled_drafting(keep).make(pair.draft.llama, {kPositions + 1, 1, V});
    const bool on_device = keep == KeepProbs::kBesideLogits;
    DraftAndVerify steps(pair.target.llama, *drafter, fixed_spec_length(K), kPositions,
                         Drafts(K, V, on_device ? backend_.get() : nullptr));
    const SpeculationOptions options{{.temperature = 0.9, .top_p = 0.95, .repetition_penalty = 1.1},
                                     1.2,
                                     &find_acceptance_rule(rule)};
    Dice dice(5);
    JudgeSetup sampling_judge(steps, dice, options);
    RejectionSampling sampling(steps, sampling_judge);
    return decode(steps, request_, [&](std::vector<TokenId>& context, Generation& generation) {
      return sampling.round(context, generation);
    });
  }

  static constexpr int kPositions = 4 + kNewTokens + K + 1;
  std::unique_ptr<Backend> backend_ = make_emulated_backend();
  LlamaModel model_{Checkpoint(golden_model("draft")), *backend_};
  GenerationRequest request_;
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

TEST_F(DeviceLoopTest, GreedyRoundsBringBackIdsAlone) {
  Pair pair(model_, kPositions);
  GreedyDrafter drafter(pair.draft.llama, kPositions + 1);
  DraftAndVerify steps(pair.target.llama, drafter, K, kPositions);
  const Decoded run =
      decode(steps, request_, [&](std::vector<TokenId>& context, Generation& generation) {
        return greedy_round(steps, context, generation);
      });
  EXPECT_EQ(run.traffic.allocations, 0u);
  EXPECT_EQ(run.traffic.bytes_to_host, (run.tokens.size() + run.drafted) * sizeof(TokenId));
}

}  // namespace
}  // namespace specdec
