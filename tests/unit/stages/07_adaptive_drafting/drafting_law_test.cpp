// Who drafts and how long: whatever a policy, a gate or a drafter of stage 7 decides, the text has
// the law of the target alone. Controls that decide by what was drawn, or judge by another q than
// was drawn from, have another one.
#include "tests/unit/stages/07_adaptive_drafting/drafting_law.h"

#include <array>

#include "tests/test_support.h"
#include "tests/unit/stages/07_adaptive_drafting/named_drafters.h"

namespace specdec::law {
namespace {

ContextTable below(int V, unsigned seed) { return table(V, seed, random_rows(V, 0)); }

TEST(DraftingLawTest, IsTheTargetsForEveryDrafterAndPolicy) {
  int drafting = 0;
  for (const Size& size : {Size{2, 2, 3}, Size{3, 2, 2}}) {
    for (const NamedDrafter& drafter : drafters()) {
      for (const NamedPolicy& policy : policies(size.K)) {
        for (const Scenario& scenario : scenarios(size, 41)) {
          const DraftingLaw result =
              drafting_law(scenario, below(size.V, 43), drafter.make, policy.make);
          const double difference = largest_difference(result.law, target_law(scenario));
          EXPECT_TRUE(difference <= kExact)
              << drafter.name << ", " << policy.name << ", " << scenario.name << ": " << difference;
          drafting += result.accepted > 0;
        }
      }
    }
  }
  EXPECT_GT(drafting, 300) << "most of these accept something";
}

// The drafters with n-grams once more, which learn what the target found likely.
TEST(DraftingLawTest, IsTheTargetsWhereItsLikelyTokensAreLearned) {
  int different = 0;
  for (const Size& size : {Size{2, 2, 5}, Size{3, 2, 3}}) {
    for (const NamedDrafter& drafter : drafters()) {
      if (!drafter.name.starts_with("n-grams")) continue;
      for (const Scenario& scenario : scenarios(size, 41)) {
        double accepted = 0;
        for (const int fill : {0, 1, 2}) {
          const DraftingLaw result = drafting_law(
              scenario, below(size.V, 43), drafter.make,
              [&] { return std::make_unique<ConfidenceSpecLength>(0.6, size.K); }, fill);
          const double difference = largest_difference(result.law, target_law(scenario));
          EXPECT_TRUE(difference <= kExact)
              << drafter.name << ", " << scenario.name << ", fill " << fill << ": " << difference;
          if (fill == 0) accepted = result.accepted;
          different += result.accepted != accepted;
        }
      }
    }
  }
  EXPECT_GT(different, 5) << "what is learned changes what is drafted";
}

TEST(DraftingLawTest, IsTheTargetsWhateverTheOptions) {
  const Size size{2, 2, 3};
  for (const Scenario& scenario : scenarios_with_options(size, 51)) {
    for (const NamedDrafter& drafter : drafters()) {
      const DraftingLaw result = drafting_law(scenario, below(size.V, 53), drafter.make, [&] {
        return std::make_unique<ConfidenceSpecLength>(0.6, size.K);
      });
      const double difference = largest_difference(result.law, target_law(scenario));
      EXPECT_TRUE(difference <= kExact)
          << drafter.name << ", " << scenario.name << ": " << difference;
    }
  }
}

// An eos and the last allowed token, inside rounds and inside inner rounds.
TEST(DraftingLawTest, IsTheTargetsWithAnEos) {
  const Size size{3, 2, 3};
  for (const NamedDrafter& drafter : drafters()) {
    Scenario scenario = scenarios(size, 61)[0];
    scenario.eos_ids = {2};
    const DraftingLaw result = drafting_law(scenario, below(size.V, 63), drafter.make,
                                            [&] { return fixed_spec_length(size.K); });
    EXPECT_LE(largest_difference(result.law, target_law(scenario)), kExact) << drafter.name;
  }
}

// ---- controls ----

// Draws a token from the model's distribution, and then does something else with it.
class OwnDraw : public DraftSampler {
 protected:
  using DraftSampler::DraftSampler;

  struct Drawn {
    TokenId token;
    double prob;
  };
  Drawn draw(const NextDraft& next, ConstDeviceRows logits) {
    const Sampling& sampling = next.request->sampling;
    const auto probs = make_probs(next, logits, sampling.options);
    const auto position = static_cast<int>(next.text.size());
    const TokenId token = sampling.random->token(probs, position, Purpose::kDraft);
    return {token, probs[static_cast<std::size_t>(token)]};
  }
};

// WRONG: draws a token, and drops it where q was low for it. The token decides about its own place.
class DroppingSampler final : public OwnDraw {
 public:
  using OwnDraw::OwnDraw;

 private:
  void choose_one(const NextDraft& next, ConstDeviceRows logits) override {
    const Drawn drawn = draw(next, logits);
    if (drawn.prob >= 0.5) next.request->drafts->add_drawn(drawn.token);
  }
};

TEST(DraftingLawTest, DroppingWhatWasDrawnIsOff) {
  const Size size{2, 2, 3};
  Scenario scenario = scenarios(size, 41)[0];
  const auto dropping = [](LanguageModel& draft, LanguageModel&) {
    auto sampler = std::make_unique<DroppingSampler>(draft.backend(), draft.vocab_size());
    return std::make_shared<ModelDrafter>(draft, std::move(sampler), 64);
  };
  const DraftingLaw result = drafting_law(scenario, below(size.V, 43), dropping,
                                          [&] { return fixed_spec_length(size.K); });
  EXPECT_GT(largest_difference(result.law, target_law(scenario)), kSurelyOff);
}

// WRONG: asks the policy of survival after the draw, with the margin of the drawn token over all
// others instead of that of the two likeliest ones.
class OwnMargin final : public OwnDraw {
 public:
  using OwnDraw::OwnDraw;

 private:
  void choose_one(const NextDraft& next, ConstDeviceRows logits) override {
    const Drawn drawn = draw(next, logits);
    const double own = std::max(drawn.prob, 0.5);
    const DraftRequest& request = *next.request;
    const bool goes_on = request.sampling.gate->goes_on(std::array{own, 1 - own},  //
                                                        request.drafts->size());
    if (goes_on) request.drafts->add_drawn(drawn.token);
  }
};

TEST(DraftingLawTest, SurvivalByWhatWasDrawnIsOff) {
  const Size size{2, 2, 3};
  const Scenario scenario = scenarios(size, 41)[0];
  const auto drafter_with = [](auto make_sampler) {
    return [=](LanguageModel& draft, LanguageModel&) {
      return std::make_shared<ModelDrafter>(draft, make_sampler(draft), 64);
    };
  };
  const auto off = [&](const MakeDrafter& make) {
    const DraftingLaw result =
        drafting_law(scenario, below(size.V, 43), make, [&] { return survival(size.K, 0); });
    EXPECT_GT(result.accepted, 0);
    return largest_difference(result.law, target_law(scenario));
  };
  EXPECT_GT(off(drafter_with([](LanguageModel& draft) {
              return std::make_unique<OwnMargin>(draft.backend(), draft.vocab_size());
            })),
            kSurelyOff);
  EXPECT_LE(off(drafter_with([](LanguageModel& draft) {
              return std::make_unique<GatedSampler>(draft.backend(), draft.vocab_size());
            })),
            kExact)
      << "asked before the draw";
}

// WRONG: a draft of a draft whose tokens carry the inner draft's distribution, although they have
// that of the model between.
class ForgetsTheModel final : public OwnDraw {
 public:
  ForgetsTheModel(LanguageModel& model, const ContextTable& inner)
      : OwnDraw(model.backend(), model.vocab_size()), inner_(inner) {}

 private:
  void choose_one(const NextDraft& next, ConstDeviceRows logits) override {
    const TokenId token = draw(next, logits).token;
    const Text text(next.text.begin(), next.text.end());
    const auto of_inner = standardised(inner_.row(text), text, next.request->sampling.options);
    std::ranges::copy(of_inner, next.request->drafts->next_probs().begin());
    next.request->drafts->add_drawn(token);
  }

  const ContextTable& inner_;
};

TEST(DraftingLawTest, JudgingByTheInnerDraftIsOff) {
  const Size size{2, 2, 3};
  Scenario scenario = scenarios(size, 41)[0];
  const ContextTable inner = below(size.V, 43);
  const auto forgetting = [&](LanguageModel& draft, LanguageModel&) {
    return std::make_shared<ModelDrafter>(draft, std::make_unique<ForgetsTheModel>(draft, inner),
                                          64);
  };
  const DraftingLaw result =
      drafting_law(scenario, inner, forgetting, [&] { return fixed_spec_length(size.K); });
  EXPECT_GT(largest_difference(result.law, target_law(scenario)), kSurelyOff);
}

}  // namespace
}  // namespace specdec::law
