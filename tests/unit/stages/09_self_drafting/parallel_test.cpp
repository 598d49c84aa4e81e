// A draft model that drafts all tokens in one pass: what its masks say, and that its cache never
// keeps them.
#include <fstream>

#include "tests/test_support.h"
#include "tests/unit/stages/09_self_drafting/self_drafting.h"

namespace specdec::batch {
namespace {

constexpr TokenId kMask = 7;

DraftRequest request_of(SequenceId sequence, SequenceId draft, std::span<const TokenId> context,
                        int K) {
  return {sequence, context, K, {}, nullptr, draft};
}

// Each mask says what the draft model proposes after the context and as many masks. A pass feeds
// what is new of the context and K - 1 masks, and all requests share it.
TEST(Parallel, EachMaskSaysOneTokenMore) {
  for (const int page_size : {kNoPages, 1, 3}) {
    for (const int max_pass_rows : {2, 256}) {
      Engine engine("draft", make_cpu_backend(2), page_size, {.max_pass_rows = max_pass_rows});
      Llama& llama = *engine.llama;
      ParallelModel model(llama, kMask, 4, 3, 20);
      const std::vector<TokenId> texts[] = {random_tokens(1, 4000, 2), random_tokens(20, 4000, 3),
                                            random_tokens(9, 4000, 4)};
      const int K[] = {4, 1, 3}, known[] = {0, 0, 6};
      std::vector<DraftRequest> requests;
      for (int i = 0; i < 3; i++) {
        const SequenceId draft = llama.create();
        const auto cached = std::span(texts[i]).first(std::size_t(known[i]));
        if (!cached.empty()) llama.forward(Segment{draft, cached, 0}, {});
        requests.push_back(request_of(model.create(), draft, texts[i], K[i]));
      }
      const LlamaCounters before = llama.counters();
      model.begin(requests);
      const LlamaCounters work = llama.counters() - before;
      EXPECT_EQ(work.forwards, 1);
      EXPECT_EQ(work.rows, (1 + 3) + (20 + 0) + (3 + 2));
      for (int i = 0; i < 3; i++) {
        const DraftRequest& r = requests[std::size_t(i)];
        std::vector<TokenId> drafted = texts[i], said = texts[i];
        drafted.resize(drafted.size() + std::size_t(K[i] - 1));  // any drafts
        said.resize(drafted.size(), kMask);
        const LogitsBuffer logits(model, K[i]);
        model.forward(Segment{r.sequence, drafted, K[i]}, logits.rows(0, K[i]));
        EXPECT_EQ(llama.length(r.target_sequence), std::ssize(texts[i]));
        const SequenceId plain = llama.create();
        EXPECT_EQ(host_rows(*engine.backend, logits.rows(0, K[i])),
                  engine.forward(plain, said, K[i]));
        llama.release(plain);
      }
    }
  }
}

// Outside of drafting, a full cache changes nothing.
TEST(Parallel, AFullCacheChangesNothing) {
  CachedLlama cached(self_target(), 3, 6);
  const SequenceId draft = cached.llama.create();
  const std::vector<TokenId> text = {5, 6, 7, 8};
  ParallelModel model(cached.llama, kMask, 4, 1, 6);
  const SequenceId sequence = model.create();
  const DraftRequest fits = request_of(sequence, draft, text, 3),
                     too_long = request_of(sequence, draft, text, 4);
  EXPECT_THROW(model.begin(std::span(&too_long, 1)), CacheFull);
  EXPECT_EQ(cached.llama.length(draft), 0);
  model.begin(std::span(&fits, 1));
  EXPECT_EQ(cached.llama.length(draft), 4);
}

class ParallelRounds : public ::testing::TestWithParam<std::string_view> {
 protected:
  const TreeKind kind_ = kind_of(GetParam());
};

// After every round, both caches are those of a fresh prefill: no mask and no draft stays. A pass
// feeds the tokens that the round before kept, and K - 1 masks.
TEST_P(ParallelRounds, CacheTokensOfTheTextAlone) {
  std::mt19937 random(9);
  int kept_several = 0;
  for (const int page_size : {kNoPages, 1, 3, 16}) {
    BatchRequest r = random_request(random, excerpt(random, 12), kind_.room().levels);
    const int K = r.spec_length = kind_.room().levels;
    r.context_limit = kPositions;
    r.speculation.lenience = 1;
    SelfDrafting self("parallel", kind_, 1, page_size, 0);
    CachedLlama& draft = *self.draft;
    DraftAndVerify steps = tree_steps(self.target(), self.drafter(), K, r.context_limit);
    Dice dice(r.seed);
    SamplingTreeJudge judge(
        self.target().backend(), dice, r.speculation, *kind_.rule,
        std::make_shared<JudgingScratch>(kind_.room().verified, self.target().vocab_size()));
    std::int64_t rows = 0, passes = 0, new_tokens = std::ssize(r.generation.prompt);
    run_alone(steps, r, nullptr, [&](auto& context, auto& generation) {
      const auto so_far = std::vector<TokenId>(context.begin(), context.end());
      const Round round = tree_round(steps, judge, context, generation);
      const LlamaCounters& counters = draft.llama.counters();
      EXPECT_EQ(counters.rows - rows, new_tokens + K - 1);
      EXPECT_EQ(counters.forwards, ++passes);
      EXPECT_EQ(self.drafter().forwards(), passes);
      EXPECT_EQ(self.drafter().length(steps.draft_sequence()), std::ssize(so_far));
      expect_fresh(self_target(), *self.llama, steps.sequence(), context);
      expect_fresh(draft.llama.model(), draft, steps.draft_sequence(), context);
      rows = counters.rows;
      new_tokens = round.emitted();
      kept_several += new_tokens > 1;
      return round;
    });
  }
  EXPECT_GT(kept_several, 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ParallelRounds, ::testing::Values("chain", "chains", "top"),
                         [](const auto& test) { return std::string(test.param); });

TEST(ReadMaskToken, WhatDoesNotFitIsRefusedByName) {
  const TemporaryDirectory folder;
  const std::filesystem::path path = folder.path() / "config.json";
  EXPECT_ERROR(read_mask_token(path, 10), "config.json");
  const auto read = [&](const std::string& config) {
    std::ofstream(path) << config;
    return read_mask_token(path, 10);
  };
  EXPECT_EQ(read(R"({"pard_token": 9})"), 9);
  EXPECT_ERROR(read("{}"), "pard_token is missing: this model does not draft in parallel");
  EXPECT_ERROR(read(R"({"pard_token": "9"})"), "pard_token");
  EXPECT_ERROR(read(R"({"pard_token": 10})"), "pard_token is 10, and the vocabulary has 10 rows");
  EXPECT_ERROR(read(R"({"pard_token": -1})"), "pard_token is -1");
}

}  // namespace
}  // namespace specdec::batch
