// Beam search on the device: the hypotheses and scores are those of plain search, whatever is
// drafted and however the caches hold the texts, with graphs and without.
#include "kernels/cuda_backend.h"
#include "tests/engine_fixture.h"
#include "tests/unit/stages/10_beam_search/beam_fixture.h"

namespace specdec {
namespace {

constexpr int kPositions = 160;

TEST(DeviceBeamLoop, EveryDraftFindsThePlainHypotheses) {
  for (const char* graphs : {"1", "0"}) {
    setenv("SPECDEC_CUDA_GRAPHS", graphs, 1);
    const LoadedModel target(golden_model("draft"), make_emulated_backend());
    const LlamaModel small(Checkpoint(golden_model("draft")), *target.backend);
    const AskedBeams asked{
        .prompt = {5, 17, 80, 33}, .max_new_tokens = 8, .eos_ids = {3841}, .beams = {.width = 3}};
    CachedLlama alone(target.model, kNoPages, kPositions);
    const FoundBeams want = search_plainly(alone.llama, asked);
    ASSERT_EQ(want.hypotheses.size(), 3u);
    for (const int page_size : {kNoPages, 3}) {
      CachedLlama cached(target.model, page_size, kPositions), draft(small, page_size, kPositions);
      ModelBeamDrafter drafter(draft.llama, 8);
      const FoundBeams got =
          search_beams(cached.llama, drafter, asked, {.width = 4, .spec_length = 2}, 16);
      EXPECT_EQ(got.hypotheses, want.hypotheses);
      EXPECT_LT(got.rounds.size(), want.rounds.size());
    }
    unsetenv("SPECDEC_CUDA_GRAPHS");
  }
}

}  // namespace
}  // namespace specdec
