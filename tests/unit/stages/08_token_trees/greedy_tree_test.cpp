// Greedy trees on real models: the text of plain decoding, whatever the tree; the bits of plain
// decoding at every node; and both caches after every round as if no other node had been there.
#include "stages/08_token_trees/lookup_tree_drafter.h"
#include "stages/08_token_trees/side_by_side_drafter.h"
#include "stages/08_token_trees/tree_drafter.h"
#include "stages/08_token_trees/tree_judge.h"
#include "stages/08_token_trees/tree_round.h"
#include "tests/speculation_fixture.h"
#include "tests/tree_steps.h"

namespace specdec {
namespace {

constexpr int kLength = 160;  // positions and nodes that a cache has room for

MakeTreeShape top(std::vector<int> widths) {
  return [=] { return std::make_unique<Likeliest>(plan_of_widths(widths)); };
}
MakeTreeShape grown(int verified, int width, int levels) {
  return [=] { return std::make_unique<GrownTree>(verified, width, levels); };
}

// A target and a drafter with caches of their own.
struct Pair {
  Pair(const LlamaModel& target_model, const LlamaModel& draft_model, int page_size,
       const MakeTreeShape& shape)
      : target(target_model, page_size, kLength),
        draft(draft_model, page_size, kLength),
        drafter(draft.llama, shape, kLength, target.llama.vocab_size()) {}

  CachedLlama target, draft;
  ModelTreeDrafter drafter;
};

struct TreeOutcome {
  std::vector<TokenId> tokens;
  std::vector<Round> rounds;
};

using AfterTree =
    std::function<void(const Round&, const DraftAndVerify&, std::span<const TokenId> context)>;

TreeOutcome decode(LanguageModel& target, Drafter& drafter, const Asked& request,
                   const AfterTree& after_round = {}, int spec_length = 8,
                   int context_limit = 2048) {
  TreeOutcome outcome;
  Generation generation(request, nullptr);
  GreedyTreeJudge judge(target.backend());
  DraftAndVerify steps = tree_steps(target, drafter, spec_length, context_limit);
  std::vector<TokenId> context = request.prompt;
  steps.prefill(context);
  while (!generation.finished()) {
    outcome.rounds.push_back(tree_round(steps, judge, context, generation));
    if (after_round) after_round(outcome.rounds.back(), steps, context);
  }
  outcome.tokens.assign(generation.tokens().begin(), generation.tokens().end());
  return outcome;
}

class GreedyTreeTest : public ::testing::Test {
 protected:
  static const LoadedModel& target() {
    static const LoadedModel model("target");
    return model;
  }
  static const LoadedModel& draft() {
    static const LoadedModel model("draft");
    return model;
  }
  static Asked request(int max_new_tokens = 48) {
    static const std::vector<TokenId> prompt =
        Tokenizer::load(golden_model("target") / "tokenizer.json")
            .encode("Once, in the winter, Sunita came to York.");
    return ids_request(prompt, max_new_tokens);
  }
  // Plain decoding, with the logits behind every token.
  static const Outcome& plain(HostRows* logits = nullptr) {
    static HostRows rows;
    static const Outcome outcome = [] {
      CachedLlama alone(target().model, kNoPages, kLength);
      return decode_plainly(alone.llama, request(), [](ConstDeviceRows row) {
        rows.push_back(to_host(*target().backend, row));
      });
    }();
    if (logits != nullptr) *logits = rows;
    return outcome;
  }
};

TEST_F(GreedyTreeTest, TextAndBitsAreThoseOfPlainDecoding) {
  HostRows want;
  const Outcome& plain_run = plain(&want);
  for (const int page_size : {kNoPages, 1, 3, 16}) {
    for (const auto& shape : {top({3, 2, 1}), top({1, 1, 1, 1, 1}), top({4}), top({2, 2, 2}),
                              grown(12, 4, 5), grown(3, 2, 6)}) {
      Pair pair(target().model, draft().model, page_size, shape);
      std::size_t emitted = 0;
      const auto compare = [&](const Round& round, const DraftAndVerify& steps, auto) {
        for (int i = 0; i < round.emitted(); i++, emitted++) {
          EXPECT_TRUE(equal_bits(to_host(*target().backend, steps.logits(round.row_of(i))),
                                 want.at(emitted)));
        }
      };
      const TreeOutcome run = decode(pair.target.llama, pair.drafter, request(), compare);
      EXPECT_EQ(run.tokens, plain_run.tokens);
      EXPECT_EQ(emitted, want.size());
      EXPECT_LT(run.rounds.size(), run.tokens.size()) << "something was accepted";
    }
  }
}

// A tree is as good as verifying each of its chains and taking the longest that is right.
TEST_F(GreedyTreeTest, AcceptsTheLongestChainThatIsRight) {
  const std::vector<TokenId>& text = plain().tokens;
  Pair pair(target().model, draft().model, 3, top({3, 2, 2}));
  const auto compare = [&](const Round& round, const DraftAndVerify& steps, auto) {
    const Drafts& tree = steps.drafts();
    const std::size_t next = std::size_t(round.start) + 1 - request().prompt.size();
    int longest = 0;
    for (int node = 0; node < tree.size(); node++) {
      int right = 0;
      for (int n = node; n != Drafts::kRoot; n = tree.node(n).parent) {
        const std::size_t at = next + std::size_t(tree.node(n).depth);
        right += at < text.size() && tree.node(n).token == text[at] ? 1 : -100;
      }
      longest = std::max(longest, right);
    }
    EXPECT_EQ(round.accepted, longest);
  };
  decode(pair.target.llama, pair.drafter, request(), compare);
}

// A grown tree may end the target's path sooner than others, but never leaves it out.
TEST_F(GreedyTreeTest, TheTargetsOwnLikeliestTokensAreAcceptedToTheLeaf) {
  for (const bool full_depth : {true, false}) {
    Pair pair(target().model, target().model, 16, full_depth ? top({2, 2, 1, 1}) : grown(9, 3, 4));
    const TreeOutcome run = decode(pair.target.llama, pair.drafter, request());
    EXPECT_EQ(run.tokens, plain().tokens);
    for (const Round& round : std::span(run.rounds).first(run.rounds.size() - 1)) {
      EXPECT_EQ(round.end, RoundEnd::kAllAccepted);
      EXPECT_GT(round.accepted, 0);
      if (full_depth) {
        EXPECT_EQ(round.accepted, 4);
      }
    }
  }
}

TEST_F(GreedyTreeTest, CachesEqualAFreshPrefillAfterEveryRound) {
  for (const int page_size : {kNoPages, 1, 3, 16}) {
    Pair pair(target().model, draft().model, page_size, top({3, 2, 1}));
    const auto check = [&](const Round&, const DraftAndVerify& steps, auto context) {
      expect_fresh(target().model, pair.target, steps.sequence(), context);
      expect_fresh(draft().model, pair.draft, steps.draft_sequence(), context);
    };
    decode(pair.target.llama, pair.drafter, request(), check);
  }
}

// Two draft models side by side, of which the first is always right, as it is the target itself.
// The second one is right for a while: its cache is rolled back by itself.
TEST_F(GreedyTreeTest, EachOfTwoDraftModelsKeepsItsOwnPath) {
  const int V = target().model.config().vocab_size;
  for (const int page_size : {kNoPages, 1, 16}) {
    CachedLlama big(target().model, page_size, kLength), first(target().model, page_size, kLength),
        second(draft().model, page_size, kLength);
    const auto chain = [&](CachedLlama& model) {
      const MakeTreeShape shape = [] { return std::make_unique<Chains>(1, 4); };
      return std::make_shared<ModelTreeDrafter>(model.llama, shape, kLength, V);
    };
    SideBySideDrafter drafter({chain(first), chain(second)}, 4, V);
    int branched = 0, shorter = 0;
    const auto check = [&](const Round& round, const DraftAndVerify& steps, auto context) {
      const SequenceId sequence = steps.draft_sequence();
      expect_fresh(target().model, big, steps.sequence(), context);
      expect_fresh(target().model, first, sequence, context);
      expect_fresh(draft().model, second, sequence, context);
      const int kept = second.llama.length(sequence);
      EXPECT_TRUE(round.accepted == round.drafted || round.end == RoundEnd::kStopped);
      EXPECT_EQ(drafter.length(sequence), kept);
      EXPECT_GT(kept, round.start) << "at least the pending token";
      branched += steps.drafts().size() > round.drafted;
      shorter += kept < first.llama.length(sequence);
    };
    const TreeOutcome run = decode(big.llama, drafter, request(), check, 4);
    EXPECT_EQ(run.tokens, plain().tokens);
    EXPECT_GT(branched, 0);
    EXPECT_GT(shorter, 0);
  }
}

// A context that ends within a tree: depth counts, and the last tokens are plain steps.
TEST_F(GreedyTreeTest, FillsTheContext) {
  const int limit = static_cast<int>(request().prompt.size()) + 13;
  Pair pair(target().model, draft().model, 3, top({3, 2, 1}));
  const TreeOutcome run = decode(pair.target.llama, pair.drafter, request(13), {}, 8, limit);
  EXPECT_EQ(run.tokens, std::vector<TokenId>(plain().tokens.begin(), plain().tokens.begin() + 13));
  for (const Round& round : run.rounds) EXPECT_LE(round.start + 1 + round.drafted, limit);
}

TEST_F(GreedyTreeTest, LookupTreesKeepTheTextToo) {
  CachedLlama alone(target().model, 3, kLength);
  LookupTreeDrafter drafter({.continuations = 3, .levels = 4, .min_match = 1});
  int branched = 0, accepted = 0;
  const auto count = [&](const Round& round, const DraftAndVerify& steps, auto) {
    branched += steps.drafts().trials(Drafts::kRoot).size() > 1;
    accepted += round.accepted;
  };
  const TreeOutcome run = decode(alone.llama, drafter, request(), count);
  EXPECT_EQ(run.tokens, plain().tokens);
  EXPECT_GT(branched, 0);
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace specdec
