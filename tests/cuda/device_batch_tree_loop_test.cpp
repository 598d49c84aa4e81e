// Batches of trees, drafted and judged on the device. The texts and counts equal those with the
// host as judge, and no array of the vocabulary's size is copied. The emulation counts the copies.
#include "kernels/cuda_backend.h"
#include "stages/06_batched_verification/batch_engine.h"
#include "stages/08_token_trees/tree_round.h"
#include "stages/programs/sampling/device_judge.h"
#include "stages/programs/trees/device_tree_brancher.h"
#include "tests/cuda/calls.h"
#include "tests/cuda/tree_shapes.h"
#include "tests/engine_fixture.h"

namespace specdec {
namespace {

constexpr int kRequests = 3, kPositions = 64, kPage = 16;
constexpr std::size_t kVocabularyBytes = 4096 * sizeof(float);

struct Served {
  std::vector<RequestResult> results;
  std::size_t most_bytes_to_host = 0;  // of a step
  std::size_t allocations = 0;         // of all steps in which requests run
  Calls last = {};                     // of the last step in which all have a tree
};

class DeviceBatchTreeLoopTest : public ::testing::Test {
 protected:
  // One of five requests, of which three run at a time: greedy, filtered, penalised.
  static BatchRequest request(int number, int levels) {
    const std::vector<SamplingOptions> options = {
        {}, {.temperature = 0.4, .top_k = 20}, {.temperature = 0.4, .repetition_penalty = 2}};
    BatchRequest request;
    request.generation.prompt = {5, 17, 80};
    for (int i = 0; i < number; i++) request.generation.prompt.push_back(TokenId(33 + number * i));
    request.generation.max_new_tokens = 5 + 2 * number;
    request.speculation.sampling = options[static_cast<std::size_t>(number) % options.size()];
    request.speculation.draft_temperature = request.speculation.sampling.temperature * 4;
    request.seed = std::uint64_t(number);
    request.spec_length = 1 + number % levels;
    return request;
  }

  Served serve(const LlamaModel& model, const NamedShape& shape, const NamedSiblingRule& rule,
               bool on_host) {
    const int levels = shape.make()->levels();
    Capacity capacity = shape.make()->capacity(levels);
    capacity.requests = kRequests;
    capacity.context = kPositions;
    const int V = model.config().vocab_size;
    CachedLlama target(model, kPage, kPositions, kRequests),
        draft(model, kPage, kPositions, kRequests);
    std::unique_ptr<TreeBrancher> brancher;
    Judging judging = judging_of_trees(rule);
    std::optional<DeviceJudge> judge;
    if (!on_host) {
      brancher =
          std::make_unique<DeviceTreeBrancher>(*backend_, capacity, V, kPositions, kRequests);
      judge.emplace(*backend_, judging_room(capacity, V), Overlaps::kNotCounted, rule.on_device);
      judging.memory = backend_.get();
      judging.judge = [&](std::span<const RoundToJudge> rounds) { judge->judge(rounds); };
    }
    ModelTreeDrafter drafter(draft.llama, shape.make, kPositions, V, kRequests,
                             std::move(brancher));
    BatchEngine engine({.target = target.llama,
                        .target_cache = *target.cache,
                        .drafter = drafter,
                        .draft_cache = draft.cache.get(),
                        .judging = judging},
                       {.max_batch = kRequests,
                        .spec_length = levels,
                        .token_budget = kRequests * capacity.rows()});
    std::vector<RequestId> ids;
    for (int i = 0; i < 5; i++) ids.push_back(engine.add_request(request(i, levels)));
    Served served;
    while (!engine.idle()) {
      const std::int64_t rounds = engine.stats().rounds;
      const emulation::Traffic before = emulation::traffic();
      engine.step();
      const emulation::Traffic step = emulation::traffic() - before;
      served.most_bytes_to_host = std::max(served.most_bytes_to_host, step.bytes_to_host);
      served.allocations += step.allocations;
      if (engine.stats().rounds - rounds == kRequests) served.last = calls(step);
    }
    for (const RequestId id : ids) served.results.push_back(engine.take_result(id));
    return served;
  }

  std::unique_ptr<Backend> backend_ = make_emulated_backend();
  LlamaModel model_{Checkpoint(golden_model("draft")), *backend_};   // V = 4096
  LlamaModel small_{Checkpoint(golden_model("untied")), *backend_};  // V = 96
};

void expect_same(const Served& got, const Served& want) {
  ASSERT_EQ(got.results.size(), want.results.size());
  for (std::size_t i = 0; i < got.results.size(); i++) {
    SCOPED_TRACE(fmt::format("request {}", i));
    const RequestResult &a = got.results[i], &b = want.results[i];
    EXPECT_EQ(a.error, "");
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.finish_reason, b.finish_reason);
    EXPECT_EQ(a.stats.run.rounds, b.stats.run.rounds);
    EXPECT_EQ(a.stats.run.tested, b.stats.run.tested);
    EXPECT_EQ(a.stats.run.accepted, b.stats.run.accepted);
    EXPECT_EQ(a.stats.run.accepted_at, b.stats.run.accepted_at);
  }
}

// All rules and shapes.
TEST_F(DeviceBatchTreeLoopTest, TextsAndCountsAreTheHosts) {
  std::int64_t accepted = 0, rejected = 0;
  for (const NamedShape& shape : shapes()) {
    for (const NamedSiblingRule& rule : sibling_rules()) {
      if (!rule.on_device || !goes_with(rule, shape)) continue;
      SCOPED_TRACE(fmt::format("{}, {}", shape.name, rule.name));
      const Served on_device = serve(small_, shape, rule, false);
      expect_same(on_device, serve(small_, shape, rule, true));
      EXPECT_EQ(on_device.allocations, 0u);
      for (const RequestResult& result : on_device.results) {
        accepted += result.stats.run.accepted;
        rejected += result.stats.run.tested - result.stats.run.accepted;
      }
    }
  }
  EXPECT_GT(accepted, 50);
  EXPECT_GT(rejected, 50);
}

TEST_F(DeviceBatchTreeLoopTest, NoVocabularyCrosses) {
  const NamedSiblingRule& rule = find_sibling_rule("rejection");
  for (const NamedShape& shape : shapes()) {
    SCOPED_TRACE(shape.name);
    EXPECT_LT(serve(model_, shape, rule, false).most_bytes_to_host, kVocabularyBytes / 4);
  }
  EXPECT_GE(serve(model_, shapes()[0], rule, true).most_bytes_to_host, kVocabularyBytes)
      << "control";
}

}  // namespace
}  // namespace specdec
