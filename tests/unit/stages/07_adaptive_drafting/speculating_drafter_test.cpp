// A draft of a draft: the drafts are the model's own, whatever stands below it and whatever was
// taken back before.
#include "stages/07_adaptive_drafting/speculating_drafter.h"

#include "stages/07_adaptive_drafting/confidence_spec_length.h"
#include "stages/07_adaptive_drafting/ngram_drafter.h"
#include "tests/test_support.h"
#include "tests/unit/stages/07_adaptive_drafting/drafting_law.h"

namespace specdec::law {
namespace {

constexpr int V = 5, kRoom = 64, kDrafts = 4, kInner = 2;

// A model, what drafts for it, and the drafter made of both.
class Levels {
 public:
  explicit Levels(unsigned seed)
      : tables_{table(V, seed, random_rows(V, 0.2)), table(V, seed + 1, random_rows(V, 0))},
        model_(V, tables_[0].row_of()),
        below_(V, tables_[1].row_of()),
        drafter(model_, plain_drafter(below_), kInner, kRoom, V) {}

  const ContextTable& table_of_model() const { return tables_[0]; }
  LanguageModel& model() { return model_; }

 private:
  ContextTable tables_[2];
  TableModel model_, below_;

 public:
  SpeculatingDrafter drafter;
};

Sampling sampled(Dice& dice, bool race = false) {
  return {.options = {.temperature = 0.8, .top_k = 4, .repetition_penalty = 1.2},
          .random = &dice,
          .race = race};
}

Drafts drafted(Drafter& drafter, SequenceId sequence, const Text& context,
               const Sampling& sampling) {
  Drafts drafts(kDrafts, V);
  const DraftRequest request{sequence, context, kDrafts, sampling, &drafts};
  drafter.draft(std::span(&request, 1));
  return drafts;
}

Text random_text(std::mt19937& random, std::size_t length) {
  Text text;
  while (text.size() < length) text.push_back(static_cast<TokenId>(random() % V));
  return text;
}

TEST(SpeculatingDrafterTest, EveryDraftCarriesTheModelsDistribution) {
  for (unsigned seed = 0; seed < 40; seed++) {
    Levels levels(seed);
    Dice dice(seed);
    std::mt19937 random(seed);
    Text text = random_text(random, 2 + seed % 5);
    const Sampling sampling = sampled(dice);
    const Drafts drafts = drafted(levels.drafter, levels.drafter.create(), text, sampling);
    ASSERT_EQ(drafts.size(), kDrafts);
    for (int i = 0; i < drafts.size(); i++) {
      SamplingScratch scratch(V);
      std::vector<double> probs(V);
      probabilities(levels.table_of_model().row(text), text, sampling.options, scratch, probs);
      EXPECT_TRUE(std::ranges::equal(drafts.probs(i), probs)) << "seed " << seed << ", draft " << i;
      text.push_back(drafts.token(i));
    }
  }
}

// At temperature 0, and where tokens are drawn by races, the model alone drafts the same tokens.
TEST(SpeculatingDrafterTest, DraftsWhatTheModelAloneWould) {
  for (unsigned seed = 0; seed < 40; seed++) {
    std::mt19937 random(seed);
    const Text text = random_text(random, 3);
    Dice dice(seed);
    for (const Sampling& sampling : {Sampling{}, sampled(dice, true)}) {
      Levels levels(seed), alone(seed);
      SamplingDrafter plain(alone.model(), kRoom);
      EXPECT_EQ(tokens_of(drafted(levels.drafter, levels.drafter.create(), text, sampling)),
                tokens_of(drafted(plain, plain.create(), text, sampling)))
          << "seed " << seed;
    }
  }
}

TEST(SpeculatingDrafterTest, TheGateEndsTheSameDrafts) {
  int shorter = 0;
  for (unsigned seed = 0; seed < 40; seed++) {
    std::mt19937 random(seed);
    const Text text = random_text(random, 3);
    ConfidenceSpecLength gate(0.45, kDrafts);
    const Sampling greedy{.options = {}, .gate = &gate};
    Levels levels(seed), alone(seed);
    const auto gated = gated_drafter(alone.model());
    const Text tokens = tokens_of(drafted(*gated, gated->create(), text, greedy));
    EXPECT_EQ(tokens_of(drafted(levels.drafter, levels.drafter.create(), text, greedy)), tokens);
    shorter += std::ssize(tokens) < kDrafts;
  }
  EXPECT_GT(shorter, 5);
}

// Rounds of which any number of drafts stays: the next drafts, and the number of passes for them,
// are those of a drafter that has read nothing but the text. So no cache keeps a rejected token.
TEST(SpeculatingDrafterTest, RemembersTheTextAlone) {
  std::mt19937 random(7);
  Levels levels(7);
  Dice dice(7);
  const SequenceId sequence = levels.drafter.create();
  Text text = {0, 1};
  for (int step = 0; step < 12; step++) {
    const Text tokens = tokens_of(drafted(levels.drafter, sequence, text, sampled(dice)));
    Levels fresh(7);
    EXPECT_EQ(tokens,
              tokens_of(drafted(fresh.drafter, fresh.drafter.create(), text, sampled(dice))))
        << "round " << step;
    const auto start = static_cast<int>(text.size()) - 1;
    const auto accepted = static_cast<int>(random() % (kDrafts + 1));
    text.insert(text.end(), tokens.begin(), tokens.begin() + accepted);
    text.push_back(static_cast<TokenId>(random() % V));
    levels.drafter.truncate(sequence, start + std::min(kDrafts, accepted + 1));
    EXPECT_LT(levels.drafter.length(sequence), std::ssize(text));
  }
}

// An inner draft that is always right saves passes of the model: k + 1 tokens each.
TEST(SpeculatingDrafterTest, ARightInnerDraftSavesPasses) {
  Levels levels(3);
  Levels same(3);
  SpeculatingDrafter drafter(levels.model(), plain_drafter(same.model()), kInner, kRoom, V);
  const Drafts drafts = drafted(drafter, drafter.create(), {0, 1}, {});
  EXPECT_EQ(drafts.size(), kDrafts);
  EXPECT_EQ(drafter.forwards(), 2 + 2) << "3 tokens and 1 of the model, for 2 inner drafts";
}

}  // namespace
}  // namespace specdec::law
