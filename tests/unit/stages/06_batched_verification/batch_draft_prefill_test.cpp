// The draft model reads prompts in chunks, beside the target.
#include "common/forwarding_model.h"
#include "kernels/int_size.h"
#include "tests/unit/stages/06_batched_verification/batch_engine_fixture.h"

namespace specdec {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// Counts the rows of each pass.
class CountedRows final : public ForwardingModel {
 public:
  using ForwardingModel::ForwardingModel;

  using LanguageModel::forward;
  void forward(std::span<const Segment> batch, const Outputs& out) override {
    int rows = 0;
    for (const Segment& segment : batch) rows += int_size(segment.tokens);
    (out.logits.rows == 0 ? prefills : drafts).push_back(rows);
    ForwardingModel::forward(batch, out);
  }

  std::vector<int> prefills, drafts;  // passes without logits, and with
};

BatchSetup counting_draft_rows(std::unique_ptr<CountedRows>& counted) {
  BatchSetup setup;
  setup.make_drafter = [&counted](LanguageModel& model, const BatchSetup& of) {
    counted = std::make_unique<CountedRows>(model);
    return std::make_unique<SamplingDrafter>(*counted, of.max_seq_len + of.options.spec_length,
                                             of.options.max_batch);
  };
  return setup;
}

TEST(BatchDraftPrefillTest, TheDraftModelReadsAPromptBesideTheTarget) {
  std::unique_ptr<CountedRows> draft;
  TestBatch batch(counting_draft_rows(draft));
  batch.add(greedy_request(some_prompt(20), 9, 4));
  while (batch.engine().stats().rounds == 0) {
    for (const StepReport::Part& part : batch.engine().step().parts) {
      EXPECT_EQ(part.draft_prefilled, part.prefilled);
    }
  }
  EXPECT_THAT(draft->prefills, ElementsAre(8, 8, 3)) << "all but the pending token, in chunks";
  EXPECT_THAT(draft->drafts, ElementsAre(1, 1, 1, 1)) << "the first round has nothing to catch up";
  EXPECT_EQ(batch.engine().stats().draft_prefill_rows, 19);
  EXPECT_EQ(batch.drafter->forwards(), 4) << "prefills are no drafts";
}

// With pages of 32, the draft finds nothing of a prompt of which the target finds 18 tokens.
TEST(BatchDraftPrefillTest, EachModelPrefillsWhatItsOwnCacheLacks) {
  std::unique_ptr<CountedRows> draft;
  BatchSetup setup = counting_draft_rows(draft);
  setup.draft = {4, 32};
  TestBatch batch(setup);
  const BatchRequest request = greedy_request(some_prompt(20), 9, 4);
  batch.add(request);
  while (!batch.engine().idle()) batch.engine().step();
  batch.add(request);
  std::vector<std::pair<int, int>> chunks;
  while (batch.engine().stats().admissions < 2 || !batch.engine().idle()) {
    for (const StepReport::Part& part : batch.engine().step().parts) {
      if (!part.is_round()) chunks.emplace_back(part.prefilled, part.draft_prefilled);
    }
  }
  EXPECT_THAT(chunks, ElementsAre(Pair(1, 8), Pair(0, 8), Pair(0, 3)));
  expect_same_outputs(batch.take_results(), undisturbed({request, request}));
}

// A prompt is never read in a round: its draft steps have what a round leaves for the next one.
TEST(BatchDraftPrefillTest, NoPassOfTheDraftModelHasMoreRowsThanAStepAllows) {
  std::unique_ptr<CountedRows> draft;
  BatchSetup setup = counting_draft_rows(draft);
  setup.target = {13, 3};
  setup.max_seq_len = 35;
  TestBatch batch(setup);
  for (const BatchRequest& request : mixed_requests()) batch.add(request);
  while (!batch.engine().idle()) {
    draft->prefills.clear();
    draft->drafts.clear();
    const StepReport& report = batch.engine().step();
    int rows = 0;
    for (const StepReport::Part& part : report.parts) rows += part.draft_prefilled;
    EXPECT_LE(rows + report.rounds(), setup.options.token_budget);
    EXPECT_THAT(draft->prefills, rows > 0 ? std::vector{rows} : std::vector<int>{});
    for (const int pass : draft->drafts) EXPECT_LE(pass, 2 * report.rounds());
  }
  EXPECT_GT(batch.engine().stats().preemptions, 0);
}

}  // namespace
}  // namespace specdec
