// Engines that run for long: nothing leaks, nothing grows. The one of the embedded models runs for
// SPECDEC_SOAK_SECONDS seconds, started by hand: 600 is the full one.
#include <cstdlib>
#include <fstream>

#include <unistd.h>

#include "stages/05_rejection_sampling/rejection_sampling.h"
#include "stages/06_batched_verification/batch_engine.h"
#include "stages/programs/sampling/speculation_options.h"
#include "tests/engine_fixture.h"
#include "tests/unit/stages/06_batched_verification/batch_traffic.h"

namespace specdec {
namespace {

// Resident memory of this process.
std::size_t resident_bytes() {
  std::size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(BatchSoakTest, AHundredThousandRoundsLeaveNothingBehind) {
  BatchSetup setup{.target = {24, 3}, .draft = {9, 8}};
  setup.options.max_batch = 8;
  setup.options.token_budget = 48;
  setup.options.check_invariants = false;
  TestBatch batch(setup);
  BatchEngine& engine = batch.engine();
  Traffic traffic(engine, some_request);
  std::size_t at_half = 0;
  for (const int rounds : {50'000, 100'000}) {
    while (engine.stats().rounds < rounds) {
      traffic.step();
      if (engine.stats().steps % 100 == 0) engine.check_invariants();
    }
    traffic.drain();
    EXPECT_EQ(engine.target_pool().n_used() + engine.draft_pool().n_used(), 0) << "pages";
    if (at_half == 0) at_half = live_bytes();
  }
  EXPECT_LE(live_bytes(), at_half + 4096) << "memory grows";
  EXPECT_GT(engine.stats().preemptions, 1000);
  EXPECT_GT(engine.stats().admissions_with_prefix, 1000);
  EXPECT_GT(engine.target_pool().prefixes()->stats().pages_evicted, 1000);
  EXPECT_EQ(engine.stats().steps_given_up, 0);
  EXPECT_GT(traffic.taken(), 5000);
}

// ---- with the embedded models

// What stage 5 makes of the request, alone.
std::vector<TokenId> alone(const BatchRequest& request) {
  Engine target("target", make_cpu_backend(2), 16), draft("draft", make_cpu_backend(2), 16);
  SamplingDrafter drafter(*draft.llama, 200);
  DraftAndVerify steps(*target.llama, drafter, fixed_spec_length(request.spec_length), 160,
                       Drafts(request.spec_length, target.llama->vocab_size()));
  Dice dice(request.seed);
  const auto judge = make_judge(steps, dice, request.speculation);
  Generation generation(request.generation, nullptr);
  std::vector<TokenId> context = request.generation.prompt;
  steps.prefill(context);
  while (!generation.finished()) sampled_round(steps, *judge, context, generation);
  return {generation.tokens().begin(), generation.tokens().end()};
}

TEST(BatchSoakTest, TheEmbeddedPairRunsForLong) {
  const char* seconds = std::getenv("SPECDEC_SOAK_SECONDS");
  if (seconds == nullptr) GTEST_SKIP() << "set SPECDEC_SOAK_SECONDS, 600 for the full soak";
  Engine target("target", make_cpu_backend(2), 16, {}, 2),
      draft("draft", make_cpu_backend(2), 16, {}, 2);
  SamplingDrafter drafter(*draft.llama, 200, 8);
  BatchEngine engine({.target = *target.llama,
                      .target_cache = *target.cache,
                      .drafter = drafter,
                      .draft_cache = draft.cache.get()},
                     {.max_batch = 8, .spec_length = 5, .token_budget = 96, .prefill_chunk = 32});
  const int V = target.model.config().vocab_size;
  std::int64_t compared = 0;
  const auto some = [V](std::mt19937& random) {
    std::vector<TokenId> prompt(1 + random() % 60, 1);
    for (TokenId& id : prompt) id = static_cast<TokenId>(random() % static_cast<unsigned>(V));
    if (random() % 2 == 0) prompt.assign(40, 7);  // shares its pages
    BatchRequest request = sampled_request(prompt, static_cast<int>(1 + random() % 60),
                                           static_cast<int>(random() % 6), random());
    request.context_limit = 160;
    return request;
  };
  Traffic traffic(engine, some, [&](const BatchRequest& request, const RequestResult& result) {
    if (result.id % 50 != 0 || result.finish_reason == FinishReason::kCancelled) return;
    EXPECT_EQ(result.tokens, alone(request)) << "request " << result.id;
    compared++;
  });
  std::size_t warm = 0;
  const double end = std::atof(seconds);
  while (engine.now() < end) {
    traffic.step();
    if (warm == 0 && engine.now() > end / 4) warm = resident_bytes();
  }
  traffic.drain();
  EXPECT_EQ(engine.target_pool().n_used() + engine.draft_pool().n_used(), 0) << "pages";
  EXPECT_LE(resident_bytes(), warm + (std::size_t{8} << 20)) << "memory grows";
  EXPECT_GT(compared, 0);
  fmt::print("{} requests, {} rounds, {} compared, {} preemptions\n", traffic.taken(),
             engine.stats().rounds, compared, engine.stats().preemptions);
}

}  // namespace
}  // namespace specdec
