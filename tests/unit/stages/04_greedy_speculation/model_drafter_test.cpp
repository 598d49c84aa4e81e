// A language model as a drafter: the same drafts alone and side by side, and not one row computed
// that could have been kept.
#include "common/inflation/inflated_config.h"
#include "common/inflation/inflated_weights.h"
#include "common/sampling/random_source.h"
#include "stages/04_greedy_speculation/greedy_drafter.h"
#include "stages/05_rejection_sampling/sampling_drafter.h"
#include "tests/speculation_fixture.h"

namespace specdec {
namespace {

using Tokens = std::vector<TokenId>;

Tokens drafts_of(Drafter& drafter, SequenceId sequence, std::span<const TokenId> context, int K) {
  Drafts drafts(K, 0);
  const DraftRequest request{sequence, context, K, {}, &drafts};
  drafter.draft(std::span(&request, 1));
  return {drafts.tokens().begin(), drafts.tokens().end()};
}

class ModelDrafterTest : public ::testing::Test {
 protected:
  static constexpr int kMaxLength = 120;

  ModelDrafterTest() : model_("draft") {}

  static Tokens context(int length, unsigned seed) { return random_tokens(length, 3800, seed); }

  // Calls look(i, probs) for each draft, with the distribution [V] that belongs to it: from
  // a model of its own, decoded token by token after the text and the drafts before.
  template <typename Look>
  void with_probs(const Tokens& text, const Drafts& drafts, const SamplingOptions& options,
                  const Look& look) {
    CachedLlama reference(model_.model, 3, kMaxLength);
    Tokens history = text;
    const SequenceId sequence = reference.llama.create();
    const LogitsBuffer logits(reference.llama, 1);
    SamplingScratch scratch(model_.model.config().vocab_size);
    std::vector<double> probs(static_cast<std::size_t>(scratch.vocab_size()));
    for (int i = 0; i < drafts.size(); i++) {
      reference.llama.forward(Segment{sequence, uncached(reference.llama, sequence, history), 1},
                              logits.rows(0, 1));
      probabilities(to_host(*model_.backend, logits.rows(0, 1)), history, options, scratch, probs);
      look(i, probs);
      history.push_back(drafts.token(i));
    }
  }

  LoadedModel model_;
};

// The draft's own greedy continuation, which plain decoding gives as well.
TEST_F(ModelDrafterTest, DraftsAreTheModelsOwnText) {
  CachedLlama alone(model_.model, kNoPages, kMaxLength), cached(model_.model, 3, kMaxLength);
  GreedyDrafter drafter(cached.llama, kMaxLength);
  for (const int length : {1, 2, 17}) {
    const Outcome plain = decode_plainly(alone.llama, ids_request(context(length, 1), 8));
    for (int K = 1; K <= 8; K++) {
      const SequenceId sequence = drafter.create();
      EXPECT_TRUE(std::ranges::equal(drafts_of(drafter, sequence, context(length, 1), K),
                                     std::span(plain.tokens).first(std::size_t(K))));
      EXPECT_EQ(drafter.length(sequence), length - 1 + K) << "the last draft is not fed";
      drafter.release(sequence);
    }
  }
}

// ---- what is computed

TEST_F(ModelDrafterTest, TheFirstCallFeedsTheWholePrompt) {
  CachedLlama cached(model_.model, 16, kMaxLength);
  GreedyDrafter drafter(cached.llama, kMaxLength);
  const SequenceId sequence = drafter.create();
  EXPECT_EQ(drafter.length(sequence), 0);
  EXPECT_EQ(drafter.forwards(), 0);
  drafts_of(drafter, sequence, context(30, 1), 4);
  EXPECT_EQ(cached.llama.counters().rows, 30 + 3);
  EXPECT_EQ(cached.llama.counters().forwards, 4) << "the prompt comes with the first step";
  EXPECT_EQ(drafter.forwards(), 4);
}

// Each round feeds the draft K rows: the pending token and all drafts but the last. One more after
// a round that was accepted whole, whose last draft it never saw; the whole prompt in the first
// round; what plain steps emitted after those. The target gets K + 1. Exactly: a row more is a
// rollback too far, a row fewer is a token that the draft never sees.
TEST_F(ModelDrafterTest, NoPositionIsComputedTwice) {
  const LoadedModel target("target");
  const Tokens prompt = Tokenizer::load(golden_model("target") / "tokenizer.json")
                            .encode("Once, in the winter, Sunita came to York.");
  const auto n_prompt = static_cast<int>(prompt.size());
  for (const int K : {1, 2, 3, 5, 8}) {
    SCOPED_TRACE(fmt::format("K {}", K));
    SpeculationPair pair(target.model, model_.model, 16, n_prompt + 60 + K);
    LlamaCounters draft_before, target_before;
    target_before.rows = n_prompt - 1;  // the prefill
    int seen = 0;                       // positions that the draft has and keeps
    int whole = 0, rejected = 0;
    const auto count = [&](const Round& round, const DraftAndVerify&, auto) {
      const LlamaCounters draft = pair.draft.llama.counters() - draft_before;
      const LlamaCounters verify = pair.target.llama.counters() - target_before;
      EXPECT_LE(draft.rows, round.start + K - seen) << "the draft was rolled back too far";
      EXPECT_GE(draft.rows, round.start + K - seen) << "a token that the draft never sees";
      EXPECT_EQ(draft.forwards, K);
      EXPECT_EQ(verify.rows, K + 1);
      draft_before = pair.draft.llama.counters();
      target_before = pair.target.llama.counters();
      const bool all = round.accepted == K;
      seen = round.start + (all ? K : round.accepted + 1);
      (all ? whole : rejected)++;
    };
    const Outcome run = speculate_greedily(pair.target.llama, pair.drafter, ids_request(prompt, 60),
                                           K, 2048, count);
    EXPECT_GT(whole, 0);
    EXPECT_GT(rejected, 0);
    EXPECT_EQ(pair.target.llama.counters().rows, n_prompt - 1 + (K + 1) * std::ssize(run.rounds));
    EXPECT_EQ(pair.target.llama.counters().forwards, 1 + std::ssize(run.rounds));
  }
}

// The same in numbers: after full acceptance two tokens are fed in one step, after a rejection one,
// after three plain steps four. Which tokens they are does not matter here.
TEST_F(ModelDrafterTest, CatchesUpInOneStep) {
  CachedLlama cached(model_.model, 16, kMaxLength);
  GreedyDrafter drafter(cached.llama, kMaxLength);
  const Tokens text = context(60, 1);
  const SequenceId sequence = drafter.create();
  std::int64_t before = 0;
  const auto rows_of_call = [&](std::size_t context_length) {
    const int length = drafter.length(sequence);
    drafts_of(drafter, sequence, std::span(text).first(context_length), 3);
    EXPECT_EQ(drafter.length(sequence), static_cast<int>(context_length) + 2) << length;
    const std::int64_t rows = cached.llama.counters().rows - before;
    before = cached.llama.counters().rows;
    return rows;
  };
  EXPECT_EQ(rows_of_call(10), 10 + 2);
  drafter.truncate(sequence, 12);  // accepted whole: 3 drafts and the bonus
  EXPECT_EQ(rows_of_call(14), 2 + 2);
  drafter.truncate(sequence, 14);  // rejected at once: the pending token stays
  EXPECT_EQ(rows_of_call(15), 1 + 2);
  drafter.truncate(sequence, 15);  // and then plain steps
  EXPECT_EQ(rows_of_call(19), 4 + 2);
}

TEST_F(ModelDrafterTest, TruncateForgetsOnlyWhatIsThere) {
  CachedLlama cached(model_.model, 16, kMaxLength);
  GreedyDrafter drafter(cached.llama, kMaxLength);
  const SequenceId sequence = drafter.create();
  drafter.truncate(sequence, 5);  // never asked: there is nothing
  EXPECT_EQ(drafter.length(sequence), 0);
  drafts_of(drafter, sequence, context(10, 1), 3);
  drafter.truncate(sequence, 12);
  EXPECT_EQ(drafter.length(sequence), 12);
  drafter.truncate(sequence, 40);
  EXPECT_EQ(drafter.length(sequence), 12);
  drafter.truncate(sequence, 10);
  EXPECT_EQ(drafter.length(sequence), 10);
}

// ---- several requests

// Three texts of different length and K, side by side over several calls with rollbacks in
// between, against the same three alone. Batched, a step serves all that are not done yet.
TEST_F(ModelDrafterTest, SideBySideAsAlone) {
  struct Text {
    Tokens tokens;
    int K;
    SequenceId alone = 0, batched = 0;
    Drafts drafts{8, 0};
  };
  std::vector<Text> texts;
  for (const auto& [length, K] : {std::pair{40, 2}, {5, 8}, {1, 0}, {23, 5}}) {
    texts.push_back({context(length, unsigned(length)), K});
  }
  CachedLlama a(model_.model, 16, kMaxLength, 4), b(model_.model, 3, kMaxLength, 4);
  GreedyDrafter alone(a.llama, kMaxLength);
  SamplingDrafter batched(b.llama, kMaxLength, 4);
  for (Text& text : texts) {
    text.alone = alone.create();
    text.batched = batched.create();
  }
  for (int call = 0; call < 4; call++) {
    SCOPED_TRACE(fmt::format("call {}", call));
    const std::int64_t alone_before = alone.forwards(), batched_before = batched.forwards();
    std::vector<DraftRequest> requests;
    for (Text& text : texts) {
      requests.push_back({text.batched, text.tokens, text.K, {}, &text.drafts});
    }
    batched.draft(requests);
    for (Text& text : texts) {
      const Tokens want = drafts_of(alone, text.alone, text.tokens, text.K);
      EXPECT_TRUE(std::ranges::equal(text.drafts.tokens(), want))
          << "K " << text.K << ": a request's drafts are those that it gets alone";
      EXPECT_EQ(std::ssize(want), text.K);
      EXPECT_EQ(batched.length(text.batched), alone.length(text.alone));
      // The first call + 1 drafts are accepted, then another token comes.
      const auto accepted = std::min<std::size_t>(want.size(), std::size_t(call) + 1);
      const auto start = static_cast<int>(text.tokens.size()) - 1;
      text.tokens.insert(text.tokens.end(), want.begin(), want.begin() + std::ptrdiff_t(accepted));
      text.tokens.push_back(100 + call);
      const int length = start + std::min(text.K, static_cast<int>(accepted) + 1);
      alone.truncate(text.alone, length);
      batched.truncate(text.batched, length);
    }
    EXPECT_EQ(alone.forwards() - alone_before, 2 + 8 + 0 + 5);
    EXPECT_EQ(batched.forwards() - batched_before, 8) << "as many as the largest K";
  }
  EXPECT_EQ(batched.length(texts[2].batched), 0) << "who wants nothing is fed nothing";
  EXPECT_EQ(a.llama.counters().rows, b.llama.counters().rows);
}

TEST_F(ModelDrafterTest, TooManyRequestsAbort) {
  CachedLlama cached(model_.model, 16, kMaxLength, 2);
  SamplingDrafter drafter(cached.llama, kMaxLength, 1);
  const Tokens text = context(3, 1);
  Drafts first(2, 0), second(2, 0);
  const DraftRequest requests[] = {{drafter.create(), text, 2, {}, &first},
                                   {drafter.create(), text, 2, {}, &second}};
  EXPECT_DEATH(drafter.draft(requests), "at most 1 requests");
}

// ---- distributions

// Above temperature 0 each draft comes with the distribution that it was drawn from, made from the
// logits after the drafts before it, with these drafts in the penalty's history; and the draw is
// the one that belongs to its position.
TEST_F(ModelDrafterTest, KeepsTheDistributionsThatItDrewFrom) {
  const int K = 5, V = model_.model.config().vocab_size;
  CachedLlama cached(model_.model, 16, kMaxLength);
  SamplingDrafter drafter(cached.llama, kMaxLength);
  Dice dice(7);
  const Sampling sampling{{.temperature = 0.9, .top_p = 0.95, .repetition_penalty = 1.2}, &dice};
  const Tokens text = context(12, 3);
  Drafts drafts(K, V);
  const DraftRequest request{drafter.create(), text, K, sampling, &drafts};
  drafter.draft(std::span(&request, 1));
  ASSERT_EQ(drafts.size(), K);

  with_probs(text, drafts, sampling.options, [&](int i, const std::vector<double>& want) {
    EXPECT_TRUE(std::ranges::equal(drafts.probs(i), want)) << "draft " << i;
    EXPECT_EQ(drafts.token(i), dice.token(want, 12 + i, Purpose::kDraft));
  });
}

// A draft and a target of the same tokens may differ in padding: what one of them has beyond its
// tokens can come from neither.
TEST_F(ModelDrafterTest, VocabulariesMayDifferInPadding) {
  const int K = 5, V = model_.model.config().vocab_size;
  const Checkpoint checkpoint(golden_model("draft"));
  const LlamaModel padded(
      InflatedWeights(checkpoint, inflated_config(checkpoint.config(), "14m", "--inflate-draft"),
                      2),
      *model_.backend);
  const Tokens text = context(12, 3);
  for (const double temperature : {0.0, 0.9}) {
    Dice dice(7);
    const Sampling sampling{{.temperature = temperature, .repetition_penalty = 1.2}, &dice};
    const auto draft_with = [&](const LlamaModel& model, int target_vocab_size) {
      ContiguousKvCache cache(model.backend(), model.kv_shape(), 1, kMaxLength);
      Llama llama(model, cache, {.token_limit = V});
      SamplingDrafter drafter(llama, kMaxLength);
      Drafts drafts(K, target_vocab_size);
      for (int i = 0; i < K; i++) {  // old numbers, which must not stay
        std::ranges::fill(drafts.next_probs(), 7.0);
        drafts.add_drawn(0);
      }
      const DraftRequest request{drafter.create(), text, K, sampling, &drafts};
      drafter.draft(std::span(&request, 1));
      return drafts;
    };
    const Drafts want = draft_with(model_.model, V);
    for (const Drafts& drafts : {draft_with(model_.model, V + 99), draft_with(padded, V),
                                 draft_with(padded, V + 99), draft_with(padded, 60'000)}) {
      EXPECT_TRUE(std::ranges::equal(drafts.tokens(), want.tokens()));
      for (int i = 0; i < K; i++) {
        ASSERT_EQ(drafts.probs(i).empty(), temperature == 0);
        for (std::size_t v = 0; v < drafts.probs(i).size(); v++) {
          const double expected = v < std::size_t(V) ? want.probs(i)[v] : 0;
          ASSERT_NEAR(drafts.probs(i)[v], expected, 1e-4 * expected);
        }
      }
    }
  }
}

// At temperature 0 a draft has no distribution, and the penalty still counts the drafts before it.
TEST_F(ModelDrafterTest, GreedyDraftsAreCertain) {
  const int K = 8, V = model_.model.config().vocab_size;
  const Tokens text = context(12, 3);
  std::vector<Tokens> drafted;
  for (const double penalty : {1.0, 1.5}) {
    CachedLlama cached(model_.model, 16, kMaxLength);
    SamplingDrafter drafter(cached.llama, kMaxLength);
    Drafts drafts(K, V);
    const Sampling sampling{{.repetition_penalty = penalty}};
    const DraftRequest request{drafter.create(), text, K, sampling, &drafts};
    drafter.draft(std::span(&request, 1));

    ASSERT_EQ(drafts.size(), K);
    with_probs(text, drafts, sampling.options, [&](int i, const std::vector<double>& want) {
      EXPECT_TRUE(drafts.probs(i).empty());
      EXPECT_EQ(want[static_cast<std::size_t>(drafts.token(i))], 1) << "draft " << i;
    });
    drafted.emplace_back(drafts.tokens().begin(), drafts.tokens().end());
  }
  EXPECT_NE(drafted[0], drafted[1]) << "the penalty made a difference";
}

}  // namespace
}  // namespace specdec
