// Profiles of trees: what a run counts, the shapes that follow, their files, and files that are
// none.
#include "stages/programs/trees/tree_profile.h"

#include "common/base/mapped_file.h"
#include "stages/08_token_trees/tree_drafter.h"
#include "stages/08_token_trees/tree_judge.h"
#include "stages/08_token_trees/tree_round.h"
#include "stages/programs/trees/shape_option.h"
#include "tests/table_model.h"
#include "tests/test_support.h"
#include "tests/tree_steps.h"

namespace specdec {
namespace {

using Counts = std::vector<std::int64_t>;

constexpr int V = 8;

Round round_of(std::vector<int> path, std::vector<int> tested_at) {
  Round round;
  round.path = std::move(path);
  round.tested_at = std::move(tested_at);
  return round;
}

// Expects levels of so many places, with so many drafts of each rank accepted.
void expect_levels(const TreeProfile& profile, const std::vector<std::pair<int, Counts>>& want) {
  ASSERT_EQ(profile.levels.size(), want.size());
  for (std::size_t level = 0; level < want.size(); level++) {
    EXPECT_EQ(profile.levels[level].places, want[level].first) << "level " << level;
    EXPECT_EQ(profile.levels[level].accepted, want[level].second) << "level " << level;
  }
}

// Two drafts at first; three after the first of them, one after the second.
TEST(TreeProfileTest, CountsThePlacesThatWereTestedAndTheRanksThatWereRight) {
  Drafts tree({.levels = 2, .nodes = 6, .trials = 6}, V);
  for (const TokenId token : {5, 6}) add_trial(tree, Drafts::kRoot, token, -1, 0.5);
  for (const TokenId token : {1, 2, 3}) add_trial(tree, 0, token, -1, 0.5);
  add_trial(tree, 1, 4, -1, 0.5);
  EXPECT_EQ(rank_of(tree, 1), 1u);
  EXPECT_EQ(rank_of(tree, 4), 2u);
  EXPECT_EQ(rank_of(tree, 5), 0u);
  TreeProfile profile;
  profile.count(tree, round_of({}, {}));  // ended before its first test
  expect_levels(profile, {});
  profile.count(tree, round_of({}, {2}));
  expect_levels(profile, {{1, {0, 0}}});
  profile.count(tree, round_of({1, 5}, {2, 1}));
  profile.count(tree, round_of({0}, {1, 3}));
  profile.count(tree, round_of({0, 4}, {1, 3}));
  profile.count(tree, round_of({0}, {1}));  // ended with this token
  expect_levels(profile, {{5, {3, 1}}, {3, {1, 0, 1}}});
  EXPECT_EQ(profile.acceptance(), (AcceptanceByRank{{3.0 / 5, 1.0 / 5}, {1.0 / 3, 0, 1.0 / 3}}));
}

// Rows [V] by the last token alone.
class LastToken {
 public:
  // likeliest: for each last token, tokens in the order of their ranks.
  explicit LastToken(const std::vector<std::vector<TokenId>>& likeliest) {
    for (const auto& ranks : likeliest) {
      auto& row = rows_.emplace_back(std::size_t(V), 0.0f);
      float logit = 9;
      for (const TokenId token : ranks) row[static_cast<std::size_t>(token)] = logit--;
    }
  }
  TableModel::RowOf row_of() const {
    return [this](std::span<const TokenId> prefix) {
      return std::span<const float>(rows_.at(static_cast<std::size_t>(prefix.back())));
    };
  }

 private:
  std::vector<std::vector<float>> rows_;
};

// The target counts 0 1 2 3 4 5 0 1 ... After most tokens the draft's first rank is right; after 3
// it is the second one, and after 4 none of two. So, by hand, with two drafts at each place:
//   after 0: rank 1, then after 1: rank 1, and 3 follows;
//   after 3: rank 2, then after 4: none, and 5 follows;
//   after 5: rank 1, then after 0: rank 1, and 2 follows;
//   after 2: rank 1, then after 3: rank 2, and 5 follows;
//   after 5: rank 1, and the text is long enough.
TEST(TreeProfileTest, OfAKnownDrafterIsWhatOneCountsByHand) {
  const LastToken says({{1}, {2}, {3}, {4}, {5}, {0}, {6}, {6}});
  const LastToken drafts({{1, 7}, {2, 7}, {3, 7}, {7, 4, 6}, {7, 6, 5}, {0, 7}, {6, 7}, {6, 7}});
  TableModel target(V, says.row_of()), draft(V, drafts.row_of());
  ModelTreeDrafter drafter(draft, tree_shape("top:2x2", 5), 64, V);
  DraftAndVerify steps = tree_steps(target, drafter, 2, 64);
  GreedyTreeJudge judge(target.backend());
  GenerationRequest request;
  request.prompt = {0};
  request.max_new_tokens = 12;
  Generation generation(request, nullptr);
  std::vector<TokenId> context = request.prompt;
  steps.prefill(context);
  TreeProfile profile;
  while (!generation.finished()) {
    const Round round = tree_round(steps, judge, context, generation);
    profile.count(steps.drafts(), round);
  }
  EXPECT_EQ(context, (std::vector<TokenId>{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0}));
  expect_levels(profile, {{5, {4, 1}}, {4, {2, 1}}});
}

// ---- the shapes that follow

// Nodes per level of the best shape of so many nodes, by this profile.
std::vector<int> best_of(int nodes, const std::vector<TreeProfile::Level>& levels) {
  const AcceptanceByRank acceptance = TreeProfile{{}, levels}.acceptance();
  const auto shape = tree_shape(fmt::format("best:{}", nodes), 3, acceptance)();
  const std::vector<double> probs = {.3, .2, .15, .1, .1, .1, .03, .02};
  const Capacity room = shape->capacity(shape->levels());
  Drafts tree(room, V);
  TreeDraws no_draws(nullptr, false, 0, 0);
  shape->begin();
  std::vector<int> looked_at = {Drafts::kRoot}, per_level;
  while (!looked_at.empty()) {
    const int first = tree.size();
    for (const int node : looked_at) shape->branch(tree, node, probs, no_draws);
    if (tree.size() > first) per_level.push_back(tree.size() - first);
    shape->look_at(tree, first, looked_at);
  }
  EXPECT_EQ(std::ssize(per_level), room.levels);
  return per_level;
}

TEST(TreeProfileTest, DecidesTheBestShape) {
  using Shape = std::vector<int>;
  EXPECT_EQ(best_of(3, {{100, {90, 5}}}), Shape({1, 1, 1})) << ".9 + .81 + .729";
  EXPECT_EQ(best_of(3, {{100, {40, 35, 20}}}), Shape({3})) << ".95, and .91 with one below";
  EXPECT_EQ(best_of(4, {{100, {40, 35, 20}}}), Shape({3, 1})) << ".95 + .16";
  EXPECT_EQ(best_of(3, {{100, {70, 20}}, {50, {5, 5}}}), Shape({2, 1})) << ".9 + .07";
  EXPECT_EQ(best_of(3, {{100, {70, 20}}, {50, {40, 5}}}), Shape({1, 1, 1})) << ".7 + .56 + .448";
  EXPECT_ERROR(best_of(3, {{100, {0, 0}}}), "by its profile, no draft is ever accepted");
}

// ---- files

const Json kKey = {{"target", "abacus"}, {"temperature", 0}};

TreeProfile example() { return {kKey, {{746, {607, 35, 11}}, {678, {563}}, {3, {0, 0, 1}}}}; }

void expect_same(const TreeProfile& got, const TreeProfile& want) {
  std::vector<std::pair<int, Counts>> levels;
  for (const auto& [places, accepted] : want.levels) levels.emplace_back(places, accepted);
  expect_levels(got, levels);
  EXPECT_EQ(got.measured_for, want.measured_for);
}

TEST(TreeProfileFileTest, ComesBackAsItWas) {
  expect_same(parse_tree_profile(to_json(example()).dump(2), "p.json"), example());
  const TemporaryDirectory folder;
  RunOptions options;
  const TreeProfile empty = read_tree_profile(options);
  EXPECT_TRUE(empty.levels.empty());
  TreeProfile counted = example();
  counted.measured_for = empty.measured_for;
  options.tree_profile = (folder.path() / "p.json").string();
  write_tree_profile(counted, options.tree_profile);
  expect_same(read_tree_profile(options), counted);
  EXPECT_ERROR(write_tree_profile({}, options.tree_profile), "so there is nothing to write");
  expect_same(read_tree_profile(options), counted);
}

TEST(TreeProfileFileTest, OfOtherModelsIsUsedButNotAddedTo) {
  const TemporaryDirectory folder;
  RunOptions options;
  options.tree_profile = folder.write("p.json", to_json(example()).dump()).string();
  ::testing::internal::CaptureStderr();
  expect_same(read_tree_profile(options), example());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::HasSubstr("p.json was measured for "));
  options.write_tree_profile = options.tree_profile;
  EXPECT_ERROR(read_tree_profile(options), "so the counts of this run cannot be added");
  TreeProfile by_hand = example();
  by_hand.measured_for = nullptr;
  options.tree_profile = folder.write("hand.json", to_json(by_hand).dump()).string();
  ::testing::internal::CaptureStderr();
  expect_same(read_tree_profile(options), by_hand);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

// What is wrong with the example once a field of it, or of its first level, is this.
std::string refusal(const std::string& field, const Json& value) {
  Json json = to_json(example());
  (field == "places" || field == "accepted" ? json["levels"][0] : json)[field] = value;
  return error_message([&] { parse_tree_profile(json.dump(), "p.json"); });
}

TEST(TreeProfileFileTest, OneThatIsNoneIsRefusedByName) {
  using ::testing::HasSubstr;
  const auto of_text = [](const std::string& text) {
    return error_message([&] { parse_tree_profile(text, "p.json"); });
  };
  EXPECT_EQ(refusal("measured_for", nullptr), "") << "made by hand";
  EXPECT_THAT(of_text(""), HasSubstr("p.json: not valid JSON"));
  EXPECT_THAT(of_text("[]"), HasSubstr("p.json: expected an object"));
  EXPECT_THAT(of_text("{}"), HasSubstr("p.json: no tree profile: its format is not"));
  EXPECT_THAT(refusal("format", "specdec-cost-profile-1"), HasSubstr("no tree profile"));
  EXPECT_THAT(refusal("measured_for", 3), HasSubstr("measured_for is 3"));
  EXPECT_THAT(refusal("levels", nullptr), HasSubstr("p.json: the field levels is missing"));
  EXPECT_THAT(refusal("levels", Json::array()), HasSubstr("a list of 1 to 32 levels"));
  EXPECT_THAT(refusal("levels", Json(Json::Array(33))), HasSubstr("a list of 1 to 32 levels"));
  EXPECT_THAT(refusal("levels", {7}), HasSubstr("p.json: levels[0]: expected an object, found 7"));
  EXPECT_THAT(refusal("places", nullptr), HasSubstr("levels[0]: the field places is missing"));
  EXPECT_THAT(refusal("places", 0), HasSubstr("levels[0]: places is 0; it must be a whole number"));
  EXPECT_THAT(refusal("places", 653), "") << "as many as were accepted";
  EXPECT_THAT(refusal("places", 652),
              HasSubstr("levels[0]: accepted adds up to 653, but only one draft is accepted at "
                        "each of 652 places"));
  EXPECT_THAT(refusal("accepted", nullptr), HasSubstr("levels[0]: the field accepted is missing"));
  EXPECT_THAT(refusal("accepted", Json::array()), HasSubstr("a list of 1 to 255 numbers"));
  EXPECT_THAT(refusal("accepted", std::vector<int>(256)), HasSubstr("a list of 1 to 255 numbers"));
  EXPECT_EQ(refusal("accepted", std::vector<int>(255)), "");
  for (const Json& bad : {Json(-1), Json(0.5), Json("2"), Json(1e300)}) {
    EXPECT_THAT(refusal("accepted", Json::array({5, bad})),
                HasSubstr("levels[0]: accepted[1] is " + bad.dump() + "; it must be a whole"));
  }
}

// ---- options

TEST(TreeProfileOptionsTest, GoWithTheShapesThatUseThem) {
  const auto with = [](const std::string& tree, const std::string& reads, const std::string& writes,
                       DraftKind kind = DraftKind::kLlama) {
    RunOptions options;
    options.tree = tree;
    options.tree_profile = reads;
    options.write_tree_profile = writes;
    options.draft_kind = kind;
    return error_message([&] { check_tree_options(options); });
  };
  using ::testing::HasSubstr;
  EXPECT_EQ(with("best:8", "p.json", ""), "");
  EXPECT_EQ(with("top:3x2", "", "p.json"), "");
  EXPECT_EQ(with("top:3x2", "p.json", "q.json"), "");
  EXPECT_THAT(with("top:3x2", "p.json", ""), HasSubstr("--tree top:3x2 does not use it"));
  EXPECT_THAT(with("grow:8", "p.json", ""), HasSubstr("--tree grow:8 does not use it"));
  EXPECT_THAT(with("best:8", "", "p.json"), HasSubstr("counts with --tree top:WIDTHS"));
  EXPECT_THAT(with("grow:8", "p.json", "p.json"), HasSubstr("counts with --tree top:WIDTHS"));
  EXPECT_THAT(with("best:8", "p.json", "", DraftKind::kLookup),
              HasSubstr("--tree-profile is about a draft model's ranks"));
  EXPECT_THAT(with("top:3x2", "", "p.json", DraftKind::kLookup),
              HasSubstr("--write-tree-profile is about a draft model's ranks"));
}

}  // namespace
}  // namespace specdec
