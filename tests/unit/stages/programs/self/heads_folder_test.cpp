// Which heads are in a folder, and which belong to a target.
#include "stages/programs/self/heads_folder.h"

#include <algorithm>
#include <fstream>

#include "common/embedded_models.h"
#include "common/golden_folder.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

const fs::path kPublished = golden_folder() / "checkpoints" / "heads";

TEST(HeadsFolder, TellsTheKind) {
  for (const IncludedHeads& heads : kIncludedHeads) {
    const fs::path folder = embedded_heads() / heads.name;
    if (!fs::exists(folder)) continue;
    EXPECT_EQ(kind_of_heads(folder), heads.kind) << heads.name;
  }
  EXPECT_EQ(kind_of_heads(kPublished / "pard"), SelfDraftKind::kParallel);
  EXPECT_EQ(kind_of_heads(kPublished / "medusa_own"), SelfDraftKind::kMedusa);
  EXPECT_EQ(kind_of_heads(kPublished / "mtp_next"), SelfDraftKind::kFeature);
  EXPECT_EQ(kind_of_heads(kPublished / "peagle"), SelfDraftKind::kParallel);
  EXPECT_TRUE(has_mask(kPublished / "peagle"));
  EXPECT_FALSE(has_mask(kPublished / "eagle3"));
  EXPECT_FALSE(is_feature_layer(kPublished / "pard"));
  EXPECT_EQ(kind_of_heads(embedded_draft()), std::nullopt);  // a model that drafts as any other
  EXPECT_ERROR(kind_of_heads("/nowhere"), "/nowhere/config.json: cannot be opened");
}

TEST(HeadsFolder, IsNamedByItsPathOrIsIncluded) {
  EXPECT_EQ(named_folder("eagle3"), embedded_heads() / "eagle3");
  EXPECT_EQ(named_folder(kPublished.string()), kPublished);
  EXPECT_EQ(named_folder("no_such_heads"), "no_such_heads");
  RunOptions options;
  EXPECT_EQ(heads_folder(options), embedded_heads() / "mtp");
  options.self_draft = SelfDraftKind::kMedusa;
  EXPECT_EQ(heads_folder(options), embedded_heads() / "medusa");
  options.target = embedded_draft().string();
  EXPECT_EQ(heads_folder(options), "");
}

// A checkpoint is known by its folder's name and its sizes.
TEST(HeadsFolder, BelongsToACheckpointOfItsNameAndSizes) {
  const IncludedHeads* of_smollm2 =
      std::ranges::find(kIncludedHeads, kSmolLm2, &IncludedHeads::model);
  ASSERT_NE(of_smollm2, std::end(kIncludedHeads));
  if (!fs::exists(embedded_heads() / of_smollm2->name)) {
    GTEST_SKIP() << "there are no heads of " << kSmolLm2;
  }
  const TemporaryDirectory place;
  const auto is_for = [&](std::string_view name, const std::string& config) {
    const fs::path folder = place.path() / name;
    fs::create_directories(folder);
    std::ofstream(folder / "config.json") << config;
    EXPECT_EQ(are_for(*of_smollm2, folder.string()), are_for(*of_smollm2, (folder / "").string()));
    return are_for(*of_smollm2, folder.string());
  };
  const std::string sizes = R"({"hidden_size": 576, "vocab_size": 49152})";
  EXPECT_TRUE(is_for(kSmolLm2, sizes));
  EXPECT_FALSE(is_for("SmolLM2-360M-Instruct", sizes));
  EXPECT_FALSE(is_for(kSmolLm2, R"({"hidden_size": 960, "vocab_size": 49152})"));
  EXPECT_FALSE(is_for(kSmolLm2, R"({"hidden_size": 576, "vocab_size": 49153})"));
  EXPECT_FALSE(is_for(kSmolLm2, "{}"));
  EXPECT_FALSE(are_for(*of_smollm2, (place.path() / "missing" / kSmolLm2).string()));
}

}  // namespace
}  // namespace specdec
