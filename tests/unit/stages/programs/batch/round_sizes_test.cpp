// What an engine takes for rounds that are no chains.
#include "common/checkpoint/checkpoint.h"
#include "common/embedded_models.h"
#include "common/llama.h"
#include "kernels/cpu/cpu_backend.h"
#include "stages/programs/batch/memory_plan.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

// Rounds of another kind, as those of trees: all that is taken for them follows from their sizes.
TEST(RoundSizesTest, AreWhatAnEngineTakes) {
  const auto backend = make_plain_backend();
  const LlamaModel target(Checkpoint(embedded_target()), *backend);
  const LlamaModel draft(Checkpoint(embedded_draft()), *backend);
  BatchRequest request;
  request.generation.prompt.resize(40);
  request.generation.max_new_tokens = 20;
  request.spec_length = 4;
  request.context_limit = 1000;
  const std::vector<BatchRequest> requests(40, request);
  const auto trees = [](int spec_length) {
    return Capacity{.levels = spec_length,
                    .nodes = 50,
                    .trials = 50,
                    .probs = 7,
                    .width = 3,
                    .verified = 10 * spec_length - 1};
  };
  for (const CacheKind kind : {CacheKind::kPaged, CacheKind::kContiguous}) {
    RunOptions options;
    options.draft_page_size = 4;
    options.cache = kind;
    const BatchSizes chains = batch_sizes(sized_for(requests, options), 1000);
    const BatchSizes sizes = batch_sizes(sized_for(requests, options, trees), 1000, trees);
    EXPECT_EQ(sizes.token_budget, 16 * 40 + 32);
    EXPECT_EQ(sizes.capacity.context, 58 + 40) << "58 tokens before the last round";
    const bool paged = kind == CacheKind::kPaged;
    EXPECT_EQ(sizes.pages, paged ? 16 * 7 : 16);
    EXPECT_EQ(sizes.capacity.pages, paged ? 16 * 27 : 16) << "58 tokens and 50 nodes";
    const MemoryPlan plan = memory_plan(options, sizes, target, &draft);
    const std::size_t row = 4096 * sizeof(float);
    EXPECT_EQ(plan.logits, 16 * (40 + 3) * row);
    EXPECT_EQ(plan.distributions, 16 * 7 * 2 * row);
    EXPECT_EQ(plan.target_cache, static_cast<std::size_t>(paged ? 16 * 7 * 16 : 16 * 98) *
                                     target.kv_shape().bytes_per_token());
    EXPECT_EQ(plan.draft_cache, static_cast<std::size_t>(paged ? 16 * 27 * 4 : 16 * (98 + 46)) *
                                    draft.kv_shape().bytes_per_token());
    EXPECT_EQ(memory_plan(options, chains, target, &draft).logits, 16 * (5 + 1) * row);
  }
}

}  // namespace
}  // namespace specdec
