// Greedy speculation on real models: the target's text and the target's bits, whatever the draft
// says, and both caches after every round as if nothing had ever been rejected.

#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "common/run_stats.h"
#include "common/speculation/forwarding_drafter.h"
#include "tests/speculation_fixture.h"

namespace specdec {
namespace {

constexpr int kPageSizes[] = {kNoPages, 1, 3, 16};

// A beginning that the embedded models go on with; a few of them for longer runs.
std::vector<TokenId> prompt_of(int number) {
  const Tokenizer tokenizer = Tokenizer::load(golden_model("target") / "tokenizer.json");
  constexpr const char* kTexts[] = {"Once, in the winter, Sunita came to York.",
                                    "The old miller had three sons", "To make the soup, first",
                                    "In the evening the river", "A poem about the sea:"};
  return tokenizer.encode(kTexts[number]);
}

// ---- what comes out

// The logits behind every emitted token are those of plain decoding, here by the plain loops.
struct GreedyCase {
  int threads;
  WeightFormat target_weights = WeightFormat::kStored;
  WeightFormat draft_weights = WeightFormat::kStored;
};

class GreedyBitsTest : public ::testing::TestWithParam<GreedyCase> {};

TEST_P(GreedyBitsTest, LogitsOfEmittedTokensAreThoseOfPlainDecoding) {
  const auto& [threads, target_weights, draft_weights] = GetParam();
  LoadedModel plain(golden_model("target"), make_plain_backend(), target_weights);
  CachedLlama reference(plain.model, kNoPages, 80);
  const Asked request = ids_request(prompt_of(0), 40);
  HostRows want;
  const Outcome plain_run = decode_plainly(reference.llama, request, [&](ConstDeviceRows logits) {
    want.push_back(to_host(*plain.backend, logits));
    EXPECT_TRUE(std::ranges::all_of(want.back(), [](float x) { return std::isfinite(x); }));
  });

  const LoadedModel target("target", threads, target_weights);
  const LoadedModel draft("draft", threads, draft_weights);
  for (const int page_size : kPageSizes) {
    for (const int spec_length : {1, 2, 3, 5, 8}) {
      SCOPED_TRACE(fmt::format("K {}, pages of {}", spec_length, page_size));
      SpeculationPair pair(target.model, draft.model, page_size, 80);
      std::size_t emitted = 0;
      const auto compare = [&](const Round& round, const DraftAndVerify& steps, auto) {
        for (int i = 0; i < round.emitted(); i++, emitted++) {
          const std::vector<float> got = to_host(*target.backend, steps.logits(i));
          EXPECT_TRUE(equal_bits(got, want.at(emitted))) << "token " << emitted;
        }
      };
      const Outcome run =
          speculate_greedily(pair.target.llama, pair.drafter, request, spec_length, 2048, compare);
      expect_same_text(run, plain_run);
      EXPECT_EQ(emitted, want.size());
      EXPECT_GT(run.stats.accepted, 0);
      EXPECT_LT(run.stats.accepted, run.stats.tested) << "rejections were tested, too";
    }
  }
}

constexpr WeightFormat kStored = WeightFormat::kStored, kInt8 = WeightFormat::kInt8;
INSTANTIATE_TEST_SUITE_P(ThreadsAndWeights, GreedyBitsTest,
                         ::testing::Values(GreedyCase{1}, GreedyCase{2}, GreedyCase{3},
                                           GreedyCase{2, kStored, kInt8},
                                           GreedyCase{2, kInt8, kInt8}));

// A copy of the target with fewer bits is a good draft, and has not the last word.
TEST(GreedyInt8Test, AnInt8CopyOfTheTargetDraftsForIt) {
  const LoadedModel target("target"), copy("target", 2, kInt8);
  RunStats stats;
  for (int number = 0; number < 5; number++) {
    const Asked request = ids_request(prompt_of(number), 200);
    CachedLlama reference(target.model, kNoPages, 230);
    const Outcome want = decode_plainly(reference.llama, request);
    SpeculationPair pair(target.model, copy.model, 16, 230);
    const Outcome run = speculate_greedily(pair.target.llama, pair.drafter, request, 5, 2048);
    expect_same_text(run, want);
    stats.accepted += run.stats.accepted;
    stats.tested += run.stats.tested;
  }
  EXPECT_LT(stats.accepted, stats.tested) << "it is another model";
  EXPECT_GT(static_cast<double>(stats.accepted), 0.9 * static_cast<double>(stats.tested));
}

// ---- a draft that is the target

class SelfDraftTest : public ::testing::TestWithParam<int> {};

// 2,000 tokens, and not one rejection. The draft computes every position once: a token that it
// missed after full acceptance would turn its proposals, one fed twice would add a row.
TEST_P(SelfDraftTest, AcceptsEverything) {
  constexpr int kTokens = 400;
  const LoadedModel model("target");
  const int K = GetParam();
  for (int number = 0; number < 5; number++) {
    const std::vector<TokenId> prompt = prompt_of(number);
    const auto n_prompt = static_cast<int>(prompt.size());
    SpeculationPair pair(model.model, model.model, 16, n_prompt + kTokens + K);
    const Outcome run =
        speculate_greedily(pair.target.llama, pair.drafter, ids_request(prompt, kTokens), K, 2048);
    EXPECT_EQ(std::ssize(run.tokens), kTokens);
    EXPECT_EQ(run.stats.accepted, run.stats.tested);
    expect_rounds(run,
                  expected_rounds(n_prompt, std::vector<bool>(kTokens, true), {.spec_length = K}));
    // Positions 0 .. start + K - 1 of the last round.
    EXPECT_EQ(pair.draft.llama.counters().rows, run.rounds.back().round.start + K);
    EXPECT_EQ(pair.drafter.forwards(), K * std::ssize(run.rounds));
  }
}

INSTANTIATE_TEST_SUITE_P(SpecLengths, SelfDraftTest, ::testing::Range(1, 9));

// ---- caches

// Asks another drafter in some rounds only; in the others it has nothing to propose.
class MoodyDrafter final : public ForwardingDrafter {
 public:
  using ForwardingDrafter::ForwardingDrafter;

  void draft(std::span<const DraftRequest> requests) override {
    if (calls_++ % 5 < 2) {
      ForwardingDrafter::draft(requests);
    } else {
      for (const DraftRequest& request : requests) request.drafts->clear();
    }
  }

 private:
  int calls_ = 0;
};

// Page size, draft, whether it has moods.
class GreedyCachesTest : public ::testing::TestWithParam<std::tuple<int, std::string, bool>> {};

TEST_P(GreedyCachesTest, EqualAFreshPrefillAfterEveryRound) {
  const auto& [page_size, draft_name, moody] = GetParam();
  const LoadedModel target("target"), draft(draft_name);
  const Asked request = ids_request(prompt_of(0), 40);
  CachedLlama alone(target.model, kNoPages, 80);
  const Outcome plain = decode_plainly(alone.llama, request);
  for (const int spec_length : {1, 2, 5}) {
    SCOPED_TRACE(fmt::format("K {}", spec_length));
    SpeculationPair pair(target.model, draft.model, page_size, 80);
    MoodyDrafter moods(pair.drafter);
    Drafter& drafter = moody ? static_cast<Drafter&>(moods) : pair.drafter;
    const auto check = [&](const Round&, const DraftAndVerify& steps, auto context) {
      expect_fresh(target.model, pair.target, steps.sequence(), context);
      expect_fresh(draft.model, pair.draft, steps.draft_sequence(), context);
    };
    const Outcome run =
        speculate_greedily(pair.target.llama, drafter, request, spec_length, 2048, check);
    expect_same_text(run, plain);
    const auto ends = [&](RoundEnd end, int least_drafted) {
      return std::ranges::count_if(run.rounds, [&](const CheckedRound& record) {
        return record.round.end == end && record.round.drafted >= least_drafted;
      });
    };
    EXPECT_GT(ends(RoundEnd::kAllAccepted, 1), 0) << "the run had full acceptance";
    if (draft_name == "draft" && !moody) {
      EXPECT_GT(ends(RoundEnd::kRejected, 1), 0);
    }
    EXPECT_EQ(std::ranges::any_of(run.rounds, [](const auto& r) { return r.drafts.empty(); }),
              moody)
        << "plain steps";
  }
}

INSTANTIATE_TEST_SUITE_P(Drafts, GreedyCachesTest,
                         ::testing::Combine(::testing::Values(kNoPages, 1, 3, 16),
                                            ::testing::Values("draft", "target"),
                                            ::testing::Bool()),
                         [](const auto& param) {
                           return fmt::format("{}_pages{}{}", std::get<1>(param.param),
                                              std::get<0>(param.param),
                                              std::get<2>(param.param) ? "_moody" : "");
                         });

// ---- edges

TEST(GreedyEdgesTest, PromptsOfOneTokenWithAnyK) {
  const LoadedModel target("target"), draft("draft");
  const Asked request = ids_request({target.model.config().vocab_size / 2}, 70);
  CachedLlama alone(target.model, kNoPages, 80);
  const Outcome plain = decode_plainly(alone.llama, request);
  for (int K = 0; K <= 32; K++) {
    SCOPED_TRACE(fmt::format("K {}", K));
    SpeculationPair pair(target.model, draft.model, 16, 1 + 70 + K);
    const Outcome run = speculate_greedily(pair.target.llama, pair.drafter, request, K, 2048);
    expect_same_text(run, plain);
    EXPECT_LE(std::ssize(run.rounds), K == 0 ? 70 : 69);
  }
}

TEST(GreedyEdgesTest, TargetAndDraftSwapped) {
  const LoadedModel target("draft"), draft("target");
  const Asked request = ids_request(prompt_of(0), 60);
  CachedLlama alone(target.model, kNoPages, 80);
  const Outcome plain = decode_plainly(alone.llama, request);
  for (const int K : {1, 4, 7}) {
    SpeculationPair pair(target.model, draft.model, 3, 90);
    const Outcome run = speculate_greedily(pair.target.llama, pair.drafter, request, K, 2048);
    expect_same_text(run, plain);
    EXPECT_GT(run.stats.accepted, 10);
    EXPECT_LT(run.stats.accepted, run.stats.tested);
  }
}

// Up to the last position, in caches that have not one slot more. The token behind the limit is
// still chosen; nobody feeds it.
TEST(GreedyEdgesTest, FillsTheContextToTheLastPosition) {
  const LoadedModel target("target"), draft("draft");
  const std::vector<TokenId> prompt = prompt_of(0);
  const auto n_prompt = static_cast<int>(prompt.size());
  for (const int limit : {n_prompt, n_prompt + 1, n_prompt + 2, n_prompt + 9, n_prompt + 30}) {
    const Asked request = ids_request(prompt, limit - n_prompt + 1);
    CachedLlama alone(target.model, kNoPages, limit);
    const Outcome plain = decode_plainly(alone.llama, request);
    for (const int K : {1, 2, 3, 5, 8, 32}) {
      SCOPED_TRACE(fmt::format("limit {}, K {}", limit, K));
      SpeculationPair pair(target.model, draft.model, kNoPages, limit);
      const Outcome run = speculate_greedily(pair.target.llama, pair.drafter, request, K, limit);
      expect_same_text(run, plain);
      for (const CheckedRound& record : run.rounds) {
        EXPECT_EQ(record.round.drafted, std::min(K, limit - 1 - record.round.start));
      }
    }
  }
}

// The embedded target's own limit, and the last of its positions.
TEST(GreedyEdgesTest, FillsTheModelsOwnContext) {
  const LoadedModel target("target"), draft("draft");
  const int limit = target.model.config().max_seq_len;
  std::vector<TokenId> prompt = random_tokens(limit - 20, 3800, 1);
  const Asked request = ids_request(prompt, 21);
  CachedLlama alone(target.model, kNoPages, limit);
  const Outcome plain = decode_plainly(alone.llama, request);
  SpeculationPair pair(target.model, draft.model, 16, limit);
  const Outcome run = speculate_greedily(pair.target.llama, pair.drafter, request, 6, limit);
  expect_same_text(run, plain);
  const Round& last = run.rounds.back().round;
  EXPECT_EQ(last.start + last.emitted(), limit) << "the last token stands behind the limit";
}

// A draft of fewer positions: a copy of the embedded one whose config says so.
TEST(GreedyEdgesTest, PlainStepsFollowOnceTheDraftIsFull) {
  constexpr int kDraftLimit = 32;
  const TemporaryDirectory directory;
  for (const auto& entry : std::filesystem::directory_iterator(golden_model("draft"))) {
    std::filesystem::copy(entry.path(), directory.path() / entry.path().filename());
  }
  Json config = parse_json(read_text_file(golden_model("draft") / "config.json"), "config.json");
  config["max_position_embeddings"] = kDraftLimit;
  directory.write("config.json", config.dump());

  const LoadedModel target("target"), draft(directory.path(), make_cpu_backend(2));
  ASSERT_EQ(draft.model.config().max_seq_len, kDraftLimit);
  const Asked request = ids_request(prompt_of(0), 40);
  CachedLlama alone(target.model, kNoPages, 80);
  const Outcome plain = decode_plainly(alone.llama, request);
  for (const int K : {1, 3, 5, 8}) {
    SCOPED_TRACE(fmt::format("K {}", K));
    SpeculationPair pair(target.model, draft.model, 16, 80);
    const Outcome run = speculate_greedily(pair.target.llama, pair.drafter, request, K, 2048);
    expect_same_text(run, plain);
    for (const CheckedRound& record : run.rounds) {
      const int room = std::max(0, kDraftLimit - record.round.start);
      EXPECT_EQ(record.round.drafted, std::min(K, room));
    }
    EXPECT_EQ(run.rounds.back().round.drafted, 0);
    EXPECT_GT(run.stats.accepted, 0);
  }
}

TEST(GreedyEdgesTest, BothSequencesAreGivenBack) {
  const LoadedModel target("target"), draft("draft");
  SpeculationPair pair(target.model, draft.model, 3, 90);
  for (int i = 0; i < 3; i++) {
    speculate_greedily(pair.target.llama, pair.drafter, ids_request(prompt_of(0), 60), 4, 2048);
    for (const CachedLlama* cached : {&pair.target, &pair.draft}) {
      const auto& cache = dynamic_cast<const PagedKvCache&>(*cached->cache);
      EXPECT_EQ(cache.allocator().n_used(), 0);
      EXPECT_TRUE(cache.sequences().empty());
    }
  }
}

}  // namespace
}  // namespace specdec
