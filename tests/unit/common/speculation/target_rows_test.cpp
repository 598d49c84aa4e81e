// The row that a drafter gets is that of the last cached token, bit for bit as a fresh prefill
// computes it: after partial acceptance, along a tree's path, and where a prefix cache or a
// preemption has lost it.
#include "common/speculation/target_rows.h"

#include "common/speculation/forwarding_drafter.h"
#include "common/speculation/ngram_model.h"
#include "tests/embedded_batch.h"
#include "tests/unit/stages/08_token_trees/tree_batch.h"

namespace specdec::batch {
namespace {

// The smaller embedded model is the target.
const LlamaModel& small_target() { return embedded().draft.model; }
int vocab_size() { return small_target().config().vocab_size; }
constexpr int kPlaces[] = {Outputs::kAfterNorm, 1};

// Counts the tokens whose rows are computed again.
class CountsAgain final : public ForwardingModel {
 public:
  using ForwardingModel::ForwardingModel;
  using LanguageModel::forward;
  void forward(std::span<const Segment> batch, const Outputs& out) override {
    for (const Segment& segment : batch) again += segment.hidden.again;
    ForwardingModel::forward(batch, out);
  }
  int again = 0;
};

// A drafter as it is, which looks up the target's rows before it drafts.
class LooksAtRows final : public ForwardingDrafter {
 public:
  LooksAtRows(TargetRows& rows, std::unique_ptr<Drafter> drafter)
      : ForwardingDrafter(*drafter), rows_(rows), drafter_(std::move(drafter)) {}

  void draft(std::span<const DraftRequest> requests) override {
    for (const DraftRequest& request : requests) look(request);
    ForwardingDrafter::draft(requests);
  }
  int looked = 0;

 private:
  void look(const DraftRequest& request) {
    const auto cached = request.context.first(request.context.size() - 1);
    if (cached.empty()) return;
    looked++;
    const auto got = to_host(rows_.backend(), rows_.last(request.target_sequence, cached));
    CachedLlama fresh(small_target(), kNoPages, static_cast<int>(cached.size()));
    const DeviceArray<float> row(rows_.backend(), std::size_t(rows_.width()));
    Outputs out;
    out.hidden = matrix(row, 1, rows_.width());
    out.places = kPlaces;
    fresh.llama.forward(Segment{fresh.llama.create(), cached, 0, {}, {.rows = 1}}, out);
    EXPECT_TRUE(equal_bits(got, to_host(rows_.backend(), out.hidden)))
        << "after " << cached.size() << " tokens";
  }

  TargetRows& rows_;
  std::unique_ptr<Drafter> drafter_;
};

TreeKind kind_of(std::string_view name) {
  const auto rule = [](std::string_view of) { return &find_sibling_rule(of); };
  if (name == "chain") return {shape<Chains>(1, 4), rule("rejection")};
  return {shape<DistinctDrafts>(std::vector<int>{2, 2, 1}), rule("at-least")};
}

// A target that keeps rows, and a bigram model that drafts trees and looks at them.
struct Watched {
  Watched(const TreeKind& kind, int max_requests, int page_size, int pages)
      : llama(make_llama(small_target(), page_size, pages, max_requests,
                         kPositions + kind.room().verified)),
        counting(llama->llama),
        rows(counting, {std::begin(kPlaces), std::end(kPlaces)}, max_requests, kind.room().rows()),
        bigrams(rows.backend(), vocab_size(), embedded().tokenizer.vocab_size(), 2, embedded().text,
                max_requests),
        drafter(rows, kind.drafter(bigrams, kPositions + kind.room().levels, vocab_size(),
                                   max_requests)) {}

  std::unique_ptr<CachedLlama> llama;
  CountsAgain counting;
  TargetRows rows;
  NgramModel bigrams;
  LooksAtRows drafter;
};

class TargetRowsTest : public ::testing::TestWithParam<const char*> {
 protected:
  const TreeKind kind_ = kind_of(GetParam());
  std::mt19937 random_{4};

  BatchRequest request(const std::vector<TokenId>& beginning) {
    BatchRequest request = random_request(random_, beginning, kind_.room().levels);
    request.spec_length = kind_.room().levels;
    request.speculation.lenience = 1;
    return request;
  }
};

TEST_P(TargetRowsTest, OneRequestComputesNoRowAgain) {
  int accepted = 0, rejected = 0;
  for (int trial = 0; trial < 8; trial++) {
    Watched watched(kind_, 1, 16, 0);
    const Outcome got = run_tree_alone(watched.rows, watched.drafter, *kind_.rule,
                                       request(excerpt(random_, 18)), nullptr);
    accepted += int(got.stats.accepted);
    rejected += int(got.stats.tested - got.stats.accepted);
    EXPECT_EQ(watched.counting.again, 0);
    EXPECT_GT(watched.drafter.looked, 0);
  }
  EXPECT_GT(accepted, 5);
  EXPECT_GT(rejected, 5);
}

// What a prefix hit or a preemption has lost costs a row, and no plain step: each request gets the
// rounds that it has alone.
TEST_P(TargetRowsTest, ABatchFindsWhatIsLost) {
  int again = 0;
  bool preempted = false, shared = false;
  for (int trial = 0; trial < 12 && !(preempted && shared && again > 0); trial++) {
    const auto beginning = excerpt(random_, 18);
    std::vector<Arrival> arrivals;
    std::vector<Outcome> want;
    std::int64_t most = 1;
    for (int i = 0; i < 7; i++) {
      arrivals.push_back({.request = request(beginning)});
      if (i % 3 == 2)
        arrivals.back().request.generation.prompt = arrivals[0].request.generation.prompt;
      const BatchRequest& r = arrivals.back().request;
      Watched alone(kind_, 1, 16, 0);
      want.push_back(run_tree_alone(alone.rows, alone.drafter, *kind_.rule, r, nullptr));
      most = std::max(most, most_cached(r, kind_.capacities(), kPositions).by_target);
    }
    random_times(random_, arrivals);
    const int page_size = trial % 2 == 0 ? 1 : 4;
    Watched watched(kind_, 4, page_size, pages_for(int(most), page_size) * 5 / 4);
    BatchEngine engine({.target = watched.rows,
                        .target_cache = *watched.llama->cache,
                        .drafter = watched.drafter,
                        .token_limit = embedded().tokenizer.vocab_size(),
                        .judging = judging_of_trees(*kind_.rule)},
                       {.max_batch = 4,
                        .spec_length = kind_.room().levels,
                        .token_budget = 4 * kind_.room().rows() + 7,
                        .prefill_chunk = 5,
                        .check_invariants = true});
    TreeBatchRun run(engine, arrivals, true);
    run.run();
    if (HasFatalFailure()) return;
    for (std::size_t i = 0; i < arrivals.size(); i++) expect_as_alone(run.served()[i], want[i]);
    again += watched.counting.again;
    preempted |= run.preempted();
    shared |= run.shared_a_prefix();
  }
  EXPECT_GT(again, 0);
  EXPECT_TRUE(preempted && shared) << "the workloads are worth their time";
}

INSTANTIATE_TEST_SUITE_P(Kinds, TargetRowsTest, ::testing::Values("chain", "tree"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace specdec::batch
