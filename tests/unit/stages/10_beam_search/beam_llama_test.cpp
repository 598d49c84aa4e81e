// Beam search on the embedded models. Whatever is drafted, and however the caches hold the texts,
// hypotheses and scores are those of plain beam search, bit for bit.
#include "common/speculation/lookup_drafter.h"
#include "common/speculation/ngram_model.h"
#include "stages/05_rejection_sampling/sampling_drafter.h"
#include "stages/06_batched_verification/batch_engine.h"
#include "stages/08_token_trees/lookup_tree_drafter.h"
#include "stages/10_beam_search/rounds_with_beams.h"
#include "tests/speculation_fixture.h"
#include "tests/unit/stages/10_beam_search/beam_fixture.h"

namespace specdec {
namespace {

constexpr int kLength = 400;  // places of a cache
const std::vector<TokenId> kEos = {3841, 3848, 3849};

class BeamLlamaTest : public ::testing::Test {
 protected:
  static const LoadedModel& target() {
    static const LoadedModel model("target");
    return model;
  }
  static const LoadedModel& draft() {
    static const LoadedModel model("draft");
    return model;
  }
  static AskedBeams asked(int width, int max_new_tokens = 24) {
    static const std::vector<TokenId> prompt =
        Tokenizer::load(golden_model("target") / "tokenizer.json")
            .encode("Once, in the winter, Sunita came to York.");
    return {.prompt = prompt,
            .max_new_tokens = max_new_tokens,
            .eos_ids = kEos,
            .beams = {.width = width}};
  }
  static FoundBeams plain(const AskedBeams& asked) {
    CachedLlama alone(target().model, kNoPages, kLength);
    return search_plainly(alone.llama, asked);
  }
  static int steps_of(const FoundBeams& found) {
    int steps = 0;
    for (const BeamRound& round : found.rounds) steps += int(round.steps.size());
    return steps;
  }
};

// The scores are those of the texts, each computed by itself in one pass.
TEST_F(BeamLlamaTest, ScoresAreThoseOfTheTexts) {
  const AskedBeams beams = asked(3);
  const FoundBeams found = plain(beams);
  ASSERT_EQ(found.hypotheses.size(), 3u);
  CachedLlama alone(target().model, kNoPages, kLength);
  for (const Hypothesis& hypothesis : found.hypotheses) {
    std::vector<TokenId> text = beams.prompt;
    text.insert(text.end(), hypothesis.tokens.begin(), hypothesis.tokens.end());
    const SequenceId sequence = alone.llama.create();
    const LogitsBuffer logits(alone.llama, int(text.size()));
    alone.llama.forward(Segment{sequence, text, int(text.size())},
                        logits.rows(0, int(text.size())));
    double sum = 0;
    for (std::size_t i = beams.prompt.size(); i < text.size(); i++) {
      const std::vector<float> row =
          to_host(*target().backend, logits.rows(static_cast<int>(i) - 1, 1));
      double total = 0;
      for (const float logit : row) total += std::exp(double{logit});
      sum += double{row[std::size_t(text[i])]} - std::log(total);
    }
    EXPECT_NEAR(hypothesis.sum, sum, 1e-9);
    EXPECT_NEAR(hypothesis.score, sum / double(hypothesis.tokens.size()), 1e-9);
    alone.llama.release(sequence);
  }
}

TEST_F(BeamLlamaTest, EveryDraftAndEveryCacheFindThePlainHypotheses) {
  const AskedBeams beams = asked(4);
  const FoundBeams want = plain(beams);
  const std::vector<TokenId> words = random_tokens(500, 3840, 7);
  for (const int page_size : {kNoPages, 1, 3, 16}) {
    SCOPED_TRACE(page_size);
    CachedLlama cached(target().model, page_size, kLength);
    CachedLlama small(draft().model, page_size, kLength), same(target().model, page_size, kLength);
    NgramModel pairs(*target().backend, cached.llama.vocab_size(), 3840, 2, words, 1);
    LookupDrafter chains(kLength, 8);
    LookupTreeDrafter trees({.continuations = 2, .levels = 3, .min_match = 1});
    ModelBeamDrafter by_draft(small.llama, 64), by_target(same.llama, 64), by_pairs(pairs, 64);
    EachBeamDrafter by_chains(chains, Drafts(4, 0));
    EachBeamDrafter by_trees(trees, Drafts(trees.capacity(4), 0));
    for (BeamDrafter* drafter : std::initializer_list<BeamDrafter*>{
             &by_draft, &by_target, &by_pairs, &by_chains, &by_trees}) {
      for (const int u : {4, 7}) {
        const auto poison = [&](const BeamRun&, const BeamRound&) {
          poison_beyond(*cached.cache, 0);  // what is not kept must never be read
        };
        const FoundBeams got =
            search_beams(cached.llama, *drafter, beams, {.width = u, .spec_length = 4}, 64, poison);
        EXPECT_EQ(got.hypotheses, want.hypotheses);
        EXPECT_EQ(steps_of(got), steps_of(want));
        if (drafter == &by_draft || drafter == &by_target) {
          EXPECT_LT(got.rounds.size(), want.rounds.size()) << "drafts save passes";
        }
        if (drafter == &by_target && u == 4) {
          EXPECT_EQ(got.rounds.size(), (want.rounds.size() + 4) / 5);
        }
      }
    }
  }
}

TEST_F(BeamLlamaTest, EveryRuleFindsThePlainHypotheses) {
  CachedLlama cached(target().model, 3, kLength), small(draft().model, 3, kLength);
  ModelBeamDrafter drafter(small.llama, 64);
  int hypotheses = 0;
  for (const double penalty : {0.0, 1.0, 2.0, -1.0}) {
    for (const auto stop : {EarlyStopping::kFalse, EarlyStopping::kTrue, EarlyStopping::kNever}) {
      AskedBeams beams = asked(3, 40);
      beams.beams.length_penalty = penalty;
      beams.beams.early_stopping = stop;
      beams.eos_ids = {13, 14, 3841};  // words and signs that are common
      const FoundBeams want = plain(beams);
      const FoundBeams got =
          search_beams(cached.llama, drafter, beams, {.width = 5, .spec_length = 3}, 64);
      EXPECT_EQ(got.hypotheses, want.hypotheses);
      for (const Hypothesis& h : want.hypotheses) hypotheses += h.tokens.size() < 40;
    }
  }
  EXPECT_GT(hypotheses, 0) << "some texts end before the limit";
}

// A beam of one is greedy speculation, in the same rounds.
TEST_F(BeamLlamaTest, OneBeamIsStageFourRoundForRound) {
  for (const bool ends : {false, true}) {
    AskedBeams beams = asked(1, 48);
    if (!ends) beams.eos_ids.clear();
    SpeculationPair pair(target().model, draft().model, 16, kLength);
    const Outcome want = speculate_greedily(
        pair.target.llama, pair.drafter, ids_request(beams.prompt, 48, beams.eos_ids), 4, kLength);
    CachedLlama cached(target().model, 16, kLength), small(draft().model, 16, kLength);
    ModelBeamDrafter drafter(small.llama, 1);
    const FoundBeams got = search_beams(
        cached.llama, drafter, beams, {.width = 1, .spec_length = 4, .context_limit = kLength}, 5);
    ASSERT_EQ(got.hypotheses.size(), 1u);
    EXPECT_EQ(got.hypotheses[0].tokens, want.tokens);
    ASSERT_EQ(got.rounds.size(), want.rounds.size());
    for (std::size_t i = 0; i < want.rounds.size(); i++) {
      const Round& round = want.rounds[i].round;
      EXPECT_EQ(int(got.rounds[i].steps.size()), round.emitted());
      EXPECT_EQ(got.rounds[i].drafted, round.drafted);
      EXPECT_EQ(got.rounds[i].rows, round.drafted + 1);
      EXPECT_EQ(got.rounds[i].kept, 0);
    }
    EXPECT_EQ(drafter.forwards(), pair.drafter.forwards());
    EXPECT_EQ(cached.llama.counters().rows, pair.target.llama.counters().rows);
  }
}

// Drafts by lookup, and looks at the target's rows before: those of the beam's text, which a fresh
// prefill gives, bit for bit.
class LooksAtRows final : public Drafter {
 public:
  explicit LooksAtRows(TargetRows& rows) : rows_(rows) {}

  void draft(std::span<const DraftRequest> requests) override {
    for (const DraftRequest& request : requests) look(request);
    drafter_.draft(requests);
  }
  SequenceId create() override { return drafter_.create(); }
  void release(SequenceId sequence) override { drafter_.release(sequence); }
  void truncate(SequenceId sequence, int length) override { drafter_.truncate(sequence, length); }
  int length(SequenceId sequence) const override { return drafter_.length(sequence); }
  Capacity capacity(int spec_length) const override { return drafter_.capacity(spec_length); }
  int looked = 0;

 private:
  void look(const DraftRequest& request) {
    const auto cached = request.context.first(request.context.size() - 1);
    const int n = int(cached.size()), first = looked++ % n;
    const auto got = to_host(rows_.backend(), rows_.rows(request.target_sequence, cached, first));
    CachedLlama fresh(*model, kNoPages, n);
    const DeviceArray<float> memory(rows_.backend(), std::size_t(n - first) * rows_.width());
    Outputs out;
    out.hidden = matrix(memory, n - first, rows_.width());
    out.places = kPlaces;
    fresh.llama.forward(Segment{fresh.llama.create(), cached, 0, {}, {.rows = n - first}}, out);
    EXPECT_TRUE(equal_bits(got, to_host(rows_.backend(), out.hidden))) << n << " from " << first;
  }

 public:
  static constexpr int kPlaces[] = {1, Outputs::kAfterNorm};
  const LlamaModel* model = nullptr;

 private:
  TargetRows& rows_;
  LookupTreeDrafter drafter_{{.continuations = 2, .levels = 3, .min_match = 1}};
};

TEST_F(BeamLlamaTest, ADrafterSeesTheTargetsRowsOfEachBeam) {
  AskedBeams beams = asked(4);
  CachedLlama cached(draft().model, 3, kLength);
  const FoundBeams want = search_plainly(cached.llama, beams);
  TargetRows rows(cached.llama, {std::begin(LooksAtRows::kPlaces), std::end(LooksAtRows::kPlaces)},
                  1, kLength, TargetRows::Of::kAllTokens);
  LooksAtRows looks(rows);
  looks.model = &draft().model;
  EachBeamDrafter drafter(looks, Drafts(looks.capacity(3), 0), &rows);
  const FoundBeams got = search_beams(rows, drafter, beams, {.width = 7, .spec_length = 3}, 64);
  EXPECT_EQ(got.hypotheses, want.hypotheses);
  EXPECT_GT(looks.looked, 60);
}

// Searches of different widths and a text, in the same passes.
TEST_F(BeamLlamaTest, InABatchEachSearchIsAsAlone) {
  for (const int page_size : {3, 16}) {
    const int pages = 240 / page_size;  // too few for all at once
    PagedKvCache cache(*target().backend, target().model.kv_shape(), pages, page_size);
    PagedKvCache draft_cache(*draft().backend, draft().model.kv_shape(), pages, page_size);
    Llama llama(target().model, cache), small(draft().model, draft_cache);
    SamplingDrafter drafter(small, kLength, 4);
    BatchEngine engine({.target = llama,
                        .target_cache = cache,
                        .drafter = drafter,
                        .draft_cache = &draft_cache,
                        .make_rounds =
                            [&](auto&&... arguments) {
                              return std::make_unique<RoundsWithBeams>(
                                  arguments..., std::make_unique<ModelBeamDrafter>(small, 64), 128);
                            }},
                       {.max_batch = 4, .spec_length = 3, .token_budget = 128});
    std::vector<AskedBeams> all;
    for (int i = 0; i < 6; i++) {
      all.push_back(asked(1 + i % 4, 20 + 5 * i));
      all.back().prompt = random_tokens(3 + 14 * i, 3840, unsigned(i));
      BatchRequest request;
      request.generation = ids_request(all.back().prompt, 20 + 5 * i, kEos);
      request.spec_length = 3;
      if (i > 0) {
        request.make_extension = [beams = all.back().beams] {
          return std::make_shared<BeamsOfRequest>(beams, 6);
        };
      }
      engine.add_request(request);
    }
    while (!engine.idle()) engine.step();
    std::int64_t saved = 0;
    for (std::size_t i = 0; i < all.size(); i++) {
      const std::vector<Hypothesis> want = plain(all[i]).hypotheses;
      const RequestResult got = engine.take_result(RequestId(i));
      EXPECT_EQ(got.tokens, want.front().tokens);
      if (i == 0) continue;
      EXPECT_EQ(dynamic_cast<const BeamsOfRequest&>(*got.extension).hypotheses, want);
      saved += got.stats.run.emitted - got.stats.run.rounds;
    }
    EXPECT_GT(saved, 10) << "drafts save passes";
    EXPECT_GT(engine.stats().preemptions, 0);
    engine.forget_prefixes();
    EXPECT_EQ(cache.allocator().n_used() + draft_cache.allocator().n_used(), 0);
  }
}

// A context that ends within the drafts: depth counts, and the last steps are plain.
TEST_F(BeamLlamaTest, FillsTheContext) {
  AskedBeams beams = asked(3, 13);
  beams.eos_ids.clear();
  const int limit = int(beams.prompt.size()) + 13;
  CachedLlama cached(target().model, 3, kLength), small(draft().model, 3, kLength);
  ModelBeamDrafter drafter(small.llama, 64);
  const FoundBeams got = search_beams(cached.llama, drafter, beams,
                                      {.width = 4, .spec_length = 6, .context_limit = limit}, 64);
  EXPECT_EQ(got.hypotheses, plain(beams).hypotheses);
  for (const BeamRound& round : got.rounds) {
    EXPECT_LE(int(beams.prompt.size()) + round.start + round.drafted, limit);
  }
}

}  // namespace
}  // namespace specdec
