// What the gate is asked about: all of q, or its two likeliest tokens where that is enough.
#include "stages/07_adaptive_drafting/gated_sampler.h"

#include <limits>
#include <memory>
#include <optional>
#include <random>

#include "common/sampling/bad_logits.h"
#include "kernels/cpu/cpu_backend.h"
#include "stages/07_adaptive_drafting/survival_model.h"
#include "tests/special_numbers.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

struct RecordingGate final : DraftGate {
  bool goes_on(std::span<const double> draft_probs, int) override {
    asked.assign(draft_probs.begin(), draft_probs.end());
    return answer;
  }
  bool compares_two() const override { return two; }

  bool two = false, answer = true;
  std::vector<double> asked;
};

class GatedSamplerTest : public ::testing::Test {
 protected:
  // Chooses a draft by these logits and returns the number of drafts.
  int choose(std::vector<float> logits, const SamplingOptions& options) {
    const int V = int_size(logits);
    drafts_.emplace(1, V);
    GatedSampler sampler(*backend_, V);
    const DraftRequest request{.context = kText,
                               .spec_length = 1,
                               .sampling = {.options = options, .random = &dice_, .gate = &gate_},
                               .drafts = &*drafts_};
    const NextDraft next{&request, kText};
    sampler.choose(std::span(&next, 1), ConstDeviceRows(logits.data(), 1, V, V));
    return drafts_->size();
  }

  static constexpr TokenId kText[] = {0, 1};
  std::unique_ptr<Backend> backend_ = make_cpu_backend();
  Dice dice_{0};
  RecordingGate gate_;
  std::optional<Drafts> drafts_;
};

std::vector<float> random_logits(std::mt19937& random, int size, float spread) {
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(static_cast<std::size_t>(size));
  for (float& logit : logits) logit = normal(random);
  return logits;
}

TEST_F(GatedSamplerTest, TwoProbabilitiesHaveTheMarginOfAll) {
  std::mt19937 random(7);
  for (const int size : {2, 3, 15, 16, 17, 100, 4096, 4099}) {
    for (const float spread : {0.0F, 0.5F, 5.0F}) {
      std::vector<float> logits = random_logits(random, size, spread);
      if (spread == 5) logits.front() = -kInfinity;
      gate_.two = false;
      ASSERT_EQ(choose(logits, {}), 1);
      ASSERT_EQ(int_size(gate_.asked), size);
      const double margin = top2_margin(gate_.asked);
      const TokenId token = drafts_->token(0);
      gate_.two = true;
      ASSERT_EQ(choose(logits, {}), 1);
      ASSERT_EQ(gate_.asked.size(), 2U);
      EXPECT_NEAR(top2_margin(gate_.asked), margin, 1e-12) << size << " logits";
      EXPECT_EQ(drafts_->token(0), token);
    }
  }
}

TEST_F(GatedSamplerTest, AsksAboutAllWhereTheyAreComputedAnyway) {
  std::mt19937 random(8);
  const std::vector<float> logits = random_logits(random, 50, 2);
  gate_.two = true;
  for (const SamplingOptions& options :
       {SamplingOptions{.temperature = 0.7}, SamplingOptions{.repetition_penalty = 1.5}}) {
    choose(logits, options);
    EXPECT_EQ(gate_.asked.size(), logits.size());
  }
}

TEST_F(GatedSamplerTest, LogitsWithoutADistributionThrowWhateverTheGateSays) {
  gate_.answer = false;
  for (const bool two : {false, true}) {
    gate_.two = two;
    EXPECT_EQ(choose({1, -kInfinity, 0}, {}), 0);
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity}) {
      EXPECT_THROW(choose({1, 2, bad}, {}), BadLogits);
      EXPECT_THROW(choose({bad, 2, 1}, {}), BadLogits);
    }
    EXPECT_THROW(choose({-kInfinity, -kInfinity}, {}), BadLogits);
  }
}

}  // namespace
}  // namespace specdec
