// The plan of a batch counts what heads take: their weights, a layer's cache, the target's rows
// that are kept for them, and their scratch.
#include "stages/programs/batch/batch_session.h"
#include "stages/programs/cache/make_cache.h"
#include "stages/programs/self/heads_folder.h"
#include "stages/programs/self/self_draft.h"
#include "stages/programs/trees/tree_run.h"
#include "tests/unit/common/counting_backend.h"
#include "tests/unit/stages/programs/batch/sized_requests.h"

namespace specdec {
namespace {

std::vector<IncludedHeads> of_the_embedded_target() {
  std::vector<IncludedHeads> all(std::begin(kIncludedHeads), std::end(kIncludedHeads));
  std::erase_if(all, [](const IncludedHeads& heads) { return !heads.model.empty(); });
  return all;
}

class HeadsMemoryTest : public ::testing::TestWithParam<IncludedHeads> {
 protected:
  static RunOptions options() {
    RunOptions options = with_pages_of(16, 4);
    options.stage = 9;
    options.threads = 1;
    options.heads = GetParam().name;
    options.tree = "top:2x2";
    options.max_batch = 3;
    return with_heads(options);
  }

  const TreeRun trees_{options()};
  const SelfDraft self_{trees_.options(), trees_.options().spec_length};
  const std::vector<BatchRequest> requests_ =
      std::vector(4, request_of(40, 20, trees_.options().spec_length));
};

TEST_P(HeadsMemoryTest, TheSessionsPlanHasIt) {
  SessionParts of_one = self_.parts(TreeRun(options()).parts());
  const BatchParts parts{.drafting = of_one.drafting, .capacity = of_one.capacity};
  const BatchSession session(sized_for(requests_, trees_.options(), parts.capacity),
                             open_model(trees_.options().target), parts);
  const MemoryPlan& plan = session.memory;
  const HeadsMemory& heads = session.draft.heads_memory();
  const bool by_layer = GetParam().kind == SelfDraftKind::kFeature;
  EXPECT_EQ(heads.cache > 0, by_layer);
  if (by_layer) {
    EXPECT_EQ(plan.draft_cache, heads.cache);
  }
  EXPECT_EQ(plan.target_rows,
            session.watched ? session.watched->bytes(plan.sizes.token_budget) : 0);
  EXPECT_EQ(plan.target_rows > 0, by_layer || GetParam().kind == SelfDraftKind::kMedusa ||
                                      GetParam().kind == SelfDraftKind::kBlockwise);
}

// On a backend that counts: nearly all that the drafter and the kept rows take is in the plan, and
// the plan has little more.
TEST_P(HeadsMemoryTest, SumsAreWhatIsAllocated) {
  CountingBackend backend;
  const ModelFiles files = open_model(trees_.options().target);
  const LlamaModel target(files.checkpoint, backend);
  const SessionParts parts = self_.parts(TreeRun(options()).parts());
  const RunOptions sized = sized_for(requests_, trees_.options(), parts.capacity);
  const BatchSizes sizes = batch_sizes(sized, 1000, parts.capacity);
  const auto cache = make_cache(target, {.page_size = 16, .pages = sizes.pages});
  Llama llama(target, *cache);
  const std::size_t target_weights = std::exchange(backend.weights, 0);
  std::optional<DraftSetup> draft;
  std::unique_ptr<TargetRows> rows;
  const auto allocated = static_cast<double>(backend.taken_by([&] {
    draft.emplace(sized, files, target, sizes.capacity, parts.drafting);
    rows = draft->watch(llama, sizes.capacity);
  }));
  HeadsMemory heads = draft->heads_memory();
  if (rows) heads.target_rows = rows->bytes(0);
  const MemoryPlan without = memory_plan({}, sizes, target, nullptr),
                   plan = memory_plan(sized, sizes, target, draft->own_model(), heads);
  EXPECT_EQ(plan.target_weights, target_weights);
  EXPECT_EQ(plan.draft_weights, backend.weights);
  const auto planned = static_cast<double>(plan.total() - plan.draft_weights - (without.total()));
  EXPECT_GE(planned, 0.93 * allocated);
  EXPECT_LE(planned, 1.05 * allocated);
}

INSTANTIATE_TEST_SUITE_P(Heads, HeadsMemoryTest, ::testing::ValuesIn(of_the_embedded_target()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace specdec
