// A batch makes no more device calls than a single request. The emulation counts them.
#include "kernels/cuda_backend.h"
#include "stages/programs/batch/batch_session.h"
#include "tests/cuda/calls.h"
#include "tests/engine_fixture.h"

namespace specdec {
namespace {

constexpr int kRequests = 3, K = 5, kPositions = 80;

class DeviceBatchLoopTest : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv("SPECDEC_CUDA_GRAPHS"); }

  static BatchRequest request(int number, double temperature) {
    BatchRequest request;
    request.generation.prompt = {5, 17, 80, TokenId(33 + number)};
    request.generation.max_new_tokens = 54;
    request.speculation.sampling.temperature = temperature;
    request.speculation.rule = &find_acceptance_rule("rejection");
    request.seed = std::uint64_t(number);
    request.spec_length = K;
    return request;
  }

  // The calls of the last step in which every request has a round with all drafts. Adds the
  // requests' texts to `texts`.
  static Calls calls_of_a_step(bool graphs, Overlaps overlaps, double temperature,
                               std::vector<std::vector<TokenId>>& texts) {
    setenv("SPECDEC_CUDA_GRAPHS", graphs ? "1" : "0", 1);
    const auto backend = make_emulated_backend();
    const LlamaModel model(Checkpoint(golden_model("untied")), *backend);
    CachedLlama target(model, 16, kPositions, kRequests), draft(model, 16, kPositions, kRequests);
    const int V = target.llama.vocab_size();
    Capacity capacity = Capacity::of_chain(K);
    capacity.requests = kRequests;
    capacity.context = kPositions - 1;
    const auto drafter = sampled_drafting(KeepProbs::kBesideLogits).make(draft.llama, capacity, V);
    DeviceJudge judge(*backend, judging_room(capacity, V), overlaps);
    BatchEngine engine(
        {.target = target.llama,
         .target_cache = *target.cache,
         .drafter = *drafter,
         .draft_cache = draft.cache.get(),
         .judging = {.memory = backend.get(), .judge = [&](auto rounds) { judge.judge(rounds); }}},
        {.max_batch = kRequests, .spec_length = K});
    std::vector<RequestId> ids;
    for (int i = 0; i < kRequests; i++) ids.push_back(engine.add_request(request(i, temperature)));
    Calls of_a_step{};
    while (!engine.idle()) {
      const std::int64_t rows = engine.stats().round_rows;
      const emulation::Traffic before = emulation::traffic();
      engine.step();
      if (engine.stats().round_rows - rows == kRequests * (K + 1)) {
        of_a_step = calls(emulation::traffic() - before);
      }
    }
    for (const RequestId id : ids) texts.push_back(engine.take_result(id).tokens);
    return of_a_step;
  }
};

// The batch makes as many calls as one request without filters (device_loop_test.cpp), and its
// texts do not depend on graphs.
TEST_F(DeviceBatchLoopTest, AStepHasTheCallsOfOneRound) {
  std::vector<std::vector<TokenId>> one_by_one, recorded, without_overlaps;
  const auto counted = Overlaps::kCounted, not_counted = Overlaps::kNotCounted;
  for (const double temperature : {0.0, 0.9}) {
    SCOPED_TRACE(temperature);
    EXPECT_EQ(calls_of_a_step(false, counted, temperature, one_by_one), (Calls{146, 0, 12, 2, 2}));
    EXPECT_EQ(calls_of_a_step(true, counted, temperature, recorded), (Calls{0, 2, 2, 0, 2}));
    EXPECT_EQ(calls_of_a_step(false, not_counted, temperature, without_overlaps),
              (Calls{145, 0, 12, 2, 2}));
  }
  EXPECT_EQ(one_by_one, recorded);
  EXPECT_EQ(one_by_one, without_overlaps);
}

}  // namespace
}  // namespace specdec
