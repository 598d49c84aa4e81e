// Cost profiles: what follows from them, their files, and files that are none.
#include "stages/programs/adaptive/cost_profile.h"

#include <sys/stat.h>

#include "common/base/json_value.h"
#include "common/base/mapped_file.h"
#include "common/run_stats.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

using ::testing::HasSubstr;

const Json kKey = {{"device", "abacus"}, {"requests", 1}};

CostProfile example() { return make_profile(kKey, {0.002, 0.003, 0.0025, 0.005}, 0.0005); }

std::string error_of(const std::string& text) {
  return error_message([&] { parse_profile(text, "p.json"); });
}

TEST(CostProfileTest, CAndVAndWhatRoundsCost) {
  const CostProfile profile = example();
  EXPECT_DOUBLE_EQ(profile.c(), 0.25);
  EXPECT_DOUBLE_EQ(profile.v(1), 1);
  EXPECT_DOUBLE_EQ(profile.v(2), 1.375) << "not 1.5: three rows took less, so that was noise";
  EXPECT_DOUBLE_EQ(profile.v(3), 1.375);
  EXPECT_DOUBLE_EQ(profile.v(4), 2.5);
  EXPECT_EQ(profile.largest_spec_length(), 3);
  EXPECT_EQ(profile.round_costs(2), (std::vector<double>{1, 1.625, 1.875}));
  EXPECT_EQ(profile.round_costs(16).size(), 4u) << "no more than was measured";
}

// As heads have them, which say all drafts of a round at once.
TEST(CostProfileTest, ARoundThatDraftsCostsItsBeginning) {
  const CostProfile profile = make_profile(kKey, {2, 3, 4}, 0.5, 1);
  EXPECT_EQ(profile.round_costs(2), (std::vector<double>{1, 0.5 + 0.25 + 1.5, 0.5 + 0.5 + 2}));
  EXPECT_DOUBLE_EQ(profile.c(), 0.25);
  EXPECT_THAT(announcement(profile, "schedule", 2), HasSubstr("c 0.250 and 0.500 per round, "));
  EXPECT_THAT(announcement(example(), "schedule", 2), HasSubstr("c 0.250, "));
  Json old = to_json(profile);
  old.erase("draft_round_seconds");
  EXPECT_EQ(parse_profile(old.dump(), "p.json").draft_round, 0);
}

TEST(CostProfileTest, ComesBackFromItsFile) {
  const CostProfile profile = make_profile(kKey, {0.002, 0.003, 0.0025, 0.005}, 0.0005, 0.0007),
                    again = parse_profile(to_json(profile).dump(2), "p.json");
  EXPECT_EQ(again.key, profile.key);
  EXPECT_EQ(again.target_pass, profile.target_pass) << "to the bit";
  EXPECT_EQ(again.draft_step, profile.draft_step);
  EXPECT_EQ(again.draft_round, profile.draft_round);
  EXPECT_EQ(again.source, "p.json");
}

TEST(CostProfileTest, OneThatIsNoneIsRefusedByName) {
  const auto with = [](const std::string& field, const Json& value) {
    Json json = to_json(example());
    json[field] = value;
    return json.dump();
  };
  EXPECT_EQ(error_of(to_json(example()).dump()), "");
  EXPECT_EQ(error_of(with("measured_for", nullptr)), "") << "made by hand";
  EXPECT_THAT(error_of(""), HasSubstr("p.json: not valid JSON"));
  EXPECT_THAT(error_of(to_json(example()).dump().substr(0, 60)), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(error_of("{}"), HasSubstr("no cost profile: its format"));
  EXPECT_THAT(error_of(with("format", "specdec-cost-profile-2")), HasSubstr("its format"));
  EXPECT_THAT(error_of(with("measured_for", 3)), HasSubstr("measured_for is 3"));
  EXPECT_THAT(error_of(with("target_pass_seconds", nullptr)), HasSubstr("is missing"));
  EXPECT_THAT(error_of(with("target_pass_seconds", {1})), HasSubstr("a list of 2 to 33 numbers"));
  EXPECT_THAT(error_of(with("target_pass_seconds", std::vector<double>(34, 1))),
              HasSubstr("a list of 2 to 33 numbers"));
  EXPECT_EQ(error_of(with("target_pass_seconds", std::vector<double>(33, 1))), "");
  EXPECT_THAT(error_of(with("target_pass_seconds", {1, "2"})),
              HasSubstr("target_pass_seconds[1] is \"2\"; it must be a number of seconds"));
  EXPECT_THAT(error_of(with("target_pass_seconds", {0, 1})), HasSubstr("target_pass_seconds[0]"));
  EXPECT_THAT(error_of(with("draft_step_seconds", -1)), HasSubstr("draft_step_seconds is -1"));
  EXPECT_THAT(error_of(with("draft_step_seconds", nullptr)), HasSubstr("is missing"));
  EXPECT_EQ(error_of(with("draft_step_seconds", 0)), "");
  EXPECT_THAT(error_of(with("draft_round_seconds", "1")),
              HasSubstr("draft_round_seconds is \"1\""));
}

class StoredProfileTest : public ::testing::Test {
 protected:
  CostProfile get(const ProfileFile& file, const Json& key = kKey) {
    notes_.clear();
    return stored_profile(
        file, key,
        [&] {
          measured_++;
          return make_profile(key, {1, 2}, 0.5 + measured_);
        },
        [&](const std::string& note) { notes_.push_back(note); });
  }
  const TemporaryDirectory temporary_;
  const std::filesystem::path folder_ = temporary_.path();
  std::vector<std::string> notes_;
  int measured_ = 0;
};

TEST_F(StoredProfileTest, IsMeasuredOnce) {
  for (const bool named : {false, true}) {
    measured_ = 0;
    const ProfileFile file{folder_ / (named ? "named.json" : "new/folder/p.json"), named};
    EXPECT_EQ(get(file).draft_step, 1.5);
    EXPECT_EQ(get(file).draft_step, 1.5) << "from the file";
    EXPECT_EQ(measured_, 1);
    EXPECT_TRUE(notes_.empty());
    EXPECT_EQ(get(file).source, file.path.string());
  }
}

TEST_F(StoredProfileTest, OneOfAnotherKeyIsMeasuredAnewUnlessNamed) {
  const auto path = temporary_.write("p.json", to_json(example()).dump());
  const Json other = {{"device", "abacus"}, {"requests", 4}};
  EXPECT_EQ(get({path, true}, other).draft_step, 0.0005);
  EXPECT_THAT(notes_, ::testing::ElementsAre(HasSubstr("was measured for requests 1, here 4")));
  EXPECT_EQ(measured_, 0);
  EXPECT_EQ(get({path, false}, other).draft_step, 1.5);
  EXPECT_THAT(notes_, ::testing::ElementsAre(HasSubstr("here 4; it is measured anew")));
  EXPECT_EQ(get({path, false}, other).draft_step, 1.5);
  EXPECT_TRUE(notes_.empty()) << "the file is the new one";
}

TEST_F(StoredProfileTest, OneMadeByHandIsUsedWithoutANote) {
  Json json = to_json(example());
  json.erase("measured_for");
  const auto path = temporary_.write("p.json", json.dump());
  EXPECT_EQ(get({path, true}).draft_step, 0.0005);
  EXPECT_TRUE(notes_.empty());
  EXPECT_EQ(get({path, false}).draft_step, 1.5) << "beside the programs it has a key";
  EXPECT_EQ(notes_.size(), 1u);
}

TEST_F(StoredProfileTest, ADamagedOneIsMeasuredAnewUnlessNamed) {
  const auto path = temporary_.write("p.json", "{\"format\"");
  EXPECT_THROW(get({path, true}), Error);
  EXPECT_EQ(read_text_file(path), "{\"format\"") << "a file that somebody named is not overwritten";
  EXPECT_EQ(get({path, false}).draft_step, 1.5);
  EXPECT_THAT(notes_, ::testing::ElementsAre(::testing::AllOf(HasSubstr("not valid JSON"),
                                                              HasSubstr("it is measured anew"))));
  EXPECT_EQ(get({path, false}).draft_step, 1.5);
}

TEST_F(StoredProfileTest, APlaceThatCannotBeWrittenIsANoteUnlessNamed) {
  const auto path = temporary_.write("file", "") / "p.json";  // below a file there are no files
  EXPECT_EQ(get({path, false}).draft_step, 1.5);
  EXPECT_THAT(notes_, ::testing::ElementsAre(HasSubstr("the cost profile is not kept")));
  EXPECT_THROW(get({path, true}), Error);
}

// A pipe would wait for a writer, and then for a reader.
TEST_F(StoredProfileTest, WhatIsNoFileIsMeasuredAnewUnlessNamed) {
  const auto fifo = folder_ / "fifo", loop = folder_ / "loop", folder = folder_ / "folder";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::filesystem::create_symlink("loop", loop);
  std::filesystem::create_directory(folder);
  for (const auto& path : {fifo, loop, loop / "below", folder}) {
    EXPECT_THROW(get({path, true}), std::exception) << path;
    measured_ = 0;
    EXPECT_EQ(get({path, false}).draft_step, 1.5) << path;
    ASSERT_EQ(notes_.size(), 2u) << path;
    EXPECT_THAT(notes_[0], HasSubstr("it is measured anew"));
    EXPECT_THAT(notes_[1], HasSubstr("the cost profile is not kept: "));
    EXPECT_THAT(notes_[0] + notes_[1], ::testing::Not(HasSubstr("filesystem error")));
  }
  EXPECT_TRUE(std::filesystem::is_fifo(fifo));
  EXPECT_TRUE(std::filesystem::is_symlink(loop));
}

TEST(ProfileFileTest, HasANameByKeyOrIsNamed) {
  const ProfileFile file = profile_file("", kKey),
                    other = profile_file("", {{"device", "abacus"}, {"requests", 2}});
  EXPECT_EQ(file.path, profile_file("", kKey).path);
  EXPECT_NE(file.path, other.path);
  EXPECT_EQ(file.path.parent_path().filename(), "profiles");
  EXPECT_FALSE(file.named);
  EXPECT_EQ(profile_file("mine.json", kKey).path, "mine.json");
  EXPECT_TRUE(profile_file("mine.json", kKey).named);
}

TEST(ProfileTextTest, SaysWhatItGoesByAndWhereItCannotPay) {
  const CostProfile profile = parse_profile(to_json(example()).dump(), "p.json");
  const AdaptiveSpecLength policy(profile.round_costs(16));
  EXPECT_EQ(announcement(profile, policy),
            "auto: c 0.250, v(2) 1.38, v(4) 2.50 (p.json); first K 2\n");
  const CostProfile dear = make_profile(kKey, {1, 2, 3}, 0.1);
  EXPECT_THAT(announcement(dear, AdaptiveSpecLength(dear.round_costs(16))),
              HasSubstr("first K 0\nspeculation cannot pay here, whatever is accepted"));
  RunStats stats;
  stats.rounds_by_drafted = {3, 0, 12};
  EXPECT_EQ(summary(policy, stats), "auto: rounds by K: 3 x 0, 12 x 2\n");
  AdaptiveSpecLength bad = policy;
  for (int i = 0; i < 30; i++) bad.learn({.drafted = 1, .end = RoundEnd::kRejected});
  EXPECT_THAT(summary(bad, stats), HasSubstr("speculation cannot pay here: at alpha 0.1"));
}

}  // namespace
}  // namespace specdec
