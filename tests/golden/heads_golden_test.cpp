// Drafters against files that PyTorch wrote (golden/goldens/README.md): those of the embedded
// target, and random ones in each published layout. A text, and five drafts after it.
#include <algorithm>

#include "common/golden_folder.h"
#include "stages/09_self_drafting/feature_modules.h"
#include "stages/09_self_drafting/heads_model.h"
#include "stages/09_self_drafting/lookahead_model.h"
#include "stages/09_self_drafting/parallel_layer.h"
#include "stages/09_self_drafting/parallel_model.h"
#include "stages/programs/self/heads_folder.h"
#include "stages/programs/self/round_check.h"
#include "tests/engine_fixture.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

constexpr int kDrafts = 5, kLongest = 320;

// A drafter's folder, with its target.
class HeadsGolden : public ::testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  fs::path folder() const {
    const auto [target, name] = GetParam();
    const bool embedded = std::string(target) == "target";
    return golden_folder() / (embedded ? "heads" : "checkpoints/heads") / name;
  }
  int vocab_size() const { return target_.config().vocab_size; }

  void check(LanguageModel& target, LanguageModel& drafter, RoundModel& round) {
    const auto [name, heads] = GetParam();
    const fs::path file =
        golden_folder() / "goldens" / name / "heads" / (heads + std::string(".safetensors"));
    const std::vector<GoldenRound> rounds = read_rounds(file, folder(), vocab_size());
    EXPECT_EQ(rounds.size(), 2u);
    for (const GoldenRound& golden : rounds) {
      EXPECT_EQ(int(golden.drafts.size()), std::min(kDrafts, round.max_drafts()));
      EXPECT_EQ(check_round(golden, target, drafter, round), "");
    }
  }
  // How the file says: each draft follows from the one before, or has a module of its own, or all
  // come from one pass.
  void check_feature_layers() {
    auto layers = load_feature_layers(folder(), checkpoint_, target_.config(), target_.backend());
    TargetRows rows(llama_.llama, layers.front().places, 1, kLongest, TargetRows::Of::kAllTokens);
    Capacity room = Capacity::of_chain(kDrafts);
    room.context = kLongest;
    std::vector<std::unique_ptr<FeatureModel>> models;
    for (FeatureLayer& layer : layers) {
      auto cache = CachedLlama::make(*layer.block, 16, kLongest, 1);
      models.push_back(std::make_unique<FeatureModel>(target_, std::move(layer), std::move(cache),
                                                      vocab_size(), room));
    }
    FeatureModel& first = *models.front();
    first.read(rows);
    if (first.layer().mask_feature.size() > 0) {
      ParallelLayer model(std::move(models.front()), kDrafts, 1, kLongest);
      return check(rows, model, model);
    }
    if (models.size() == 1) return check(rows, first, first);
    FeatureModules model(std::move(models));
    check(rows, model, model);
  }
  void check_heads() {
    TargetRows rows(llama_.llama, {Outputs::kAfterNorm}, 1, 1);
    HeadsModel model(target_,
                     load_heads(folder(), checkpoint_, target_.config(), target_.backend(), 1),
                     vocab_size(), 1);
    model.read(rows);
    check(rows, model, model);
  }
  void check_lookahead() {
    const int E = target_.config().d_model;
    LookaheadModel model(target_, load_lookahead(folder(), E, E), 1);
    model.read(llama_.llama);
    check(llama_.llama, model, model);
  }
  void check_parallel() {
    const LlamaModel draft(Checkpoint(folder()), target_.backend());
    CachedLlama cached(draft, 16, kLongest);
    ParallelModel model(cached.llama, read_mask_token(folder() / "config.json", vocab_size()),
                        kDrafts, 1, kLongest);
    check(cached.llama, model, model);
  }

  std::unique_ptr<Backend> backend_ = make_cpu_backend(2);
  Checkpoint checkpoint_{golden_model(GetParam().first)};
  LlamaModel target_{checkpoint_, *backend_};
  CachedLlama llama_{target_, 16, kLongest};
};

TEST_P(HeadsGolden, SayWhatPyTorchSays) {
  switch (kind_of_heads(folder()).value()) {
    case SelfDraftKind::kFeature:
      return check_feature_layers();
    case SelfDraftKind::kLookahead:
      return check_lookahead();
    case SelfDraftKind::kParallel:
      return is_feature_layer(folder()) ? check_feature_layers() : check_parallel();
    default:
      return check_heads();
  }
}

std::string name_of_case(const ::testing::TestParamInfo<HeadsGolden::ParamType>& param) {
  return param.param.second;
}

INSTANTIATE_TEST_SUITE_P(
    Embedded, HeadsGolden,
    ::testing::Values(std::pair("target", "blockwise"), std::pair("target", "medusa"),
                      std::pair("target", "lookahead"), std::pair("target", "parallel"),
                      std::pair("target", "eagle"), std::pair("target", "eagle3"),
                      std::pair("target", "mtp")),
    name_of_case);
INSTANTIATE_TEST_SUITE_P(
    Published, HeadsGolden,
    ::testing::Values(std::pair("sharded", "blockwise"), std::pair("sharded", "medusa"),
                      std::pair("sharded", "medusa_own"), std::pair("sharded", "medusa_int8"),
                      std::pair("sharded", "pard"), std::pair("sharded", "eagle"),
                      std::pair("sharded", "eagle_bias"), std::pair("sharded", "eagle3"),
                      std::pair("sharded", "eagle3_int8"), std::pair("sharded", "mtp"),
                      std::pair("sharded", "mtp_next"), std::pair("sharded", "medusa_two"),
                      std::pair("sharded", "peagle"), std::pair("sharded", "mtp_modules"),
                      std::pair("sharded", "mtp_next_modules")),
    name_of_case);

}  // namespace
}  // namespace specdec
