// The command line of stage 6, and what tells the stages' apart.
#include "stages/programs/run/options.h"

#include <CLI/CLI.hpp>

#include "tests/test_support.h"

namespace specdec {
namespace {

RunOptions parse(int stage, std::vector<std::string> arguments) {
  RunOptions options;
  CLI::App app;
  add_run_options(app, stage, options);
  std::ranges::reverse(arguments);  // as CLI11 wants them
  app.parse(arguments);
  return options;
}

// What a program would print, whoever threw it.
std::string refusal(int stage, const std::vector<std::string>& arguments) {
  try {
    parse(stage, arguments);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(OptionsTest, Stage6HasItsOwn) {
  const RunOptions defaults = parse(6, {});
  EXPECT_EQ(defaults.requests + defaults.workload, "");
  EXPECT_EQ(defaults.max_batch, 16);
  EXPECT_EQ(defaults.token_budget, 0);
  EXPECT_EQ(defaults.prefill_chunk, 128);
  EXPECT_EQ(defaults.draft_pages, 0);
  EXPECT_FALSE(defaults.no_prefix_cache);

  const RunOptions options =
      parse(6, {"--requests", "-", "--max-batch=1024", "--token-budget=64", "--prefill-chunk=1",
                "--draft-pages=7", "--no-prefix-cache"});
  EXPECT_EQ(options.requests, "-");
  EXPECT_EQ(options.max_batch, 1024);
  EXPECT_EQ(options.token_budget, 64);
  EXPECT_EQ(options.prefill_chunk, 1);
  EXPECT_EQ(options.draft_pages, 7);
  EXPECT_TRUE(options.no_prefix_cache);
  EXPECT_EQ(parse(6, {"--workload", "poisson:rate=1,n=2"}).workload, "poisson:rate=1,n=2");
}

TEST(OptionsTest, OptionsOfStage6NameItInOtherStages) {
  for (const char* option : {"--requests", "--workload", "--max-batch", "--token-budget",
                             "--prefill-chunk", "--draft-pages", "--no-prefix-cache"}) {
    for (int stage = 1; stage <= 5; stage++) {
      EXPECT_EQ(refusal(stage, {option, "7"}),
                fmt::format("this stage has no {}; 06_batched_verification has it", option));
    }
  }
}

TEST(OptionsTest, OptionsThatEndWithStage5NameItInStage6) {
  for (const char* option : {"--dump", "--dump-logits"}) {
    EXPECT_EQ(refusal(6, {option, "file"}),
              fmt::format("this stage has no {}; 05_rejection_sampling has it", option));
    for (int stage = 1; stage <= 5; stage++) EXPECT_EQ(refusal(stage, {option, "file"}), "");
  }
}

TEST(OptionsTest, RequestsWorkloadsAndPromptsExcludeEachOther) {
  const std::vector<std::string> sources = {"--requests", "--workload", "--prompt", "--prompt-ids",
                                            "--chat"};
  for (const std::string& one : sources) {
    EXPECT_EQ(refusal(6, {one, "1"}), "");
    for (const std::string& other : sources) {
      if (one == other) continue;
      EXPECT_THAT(refusal(6, {one, "1", other, "1"}), ::testing::HasSubstr("excludes")) << one;
    }
  }
}

TEST(OptionsTest, NumbersOfStage6HaveRanges) {
  for (const char* option : {"--max-batch", "--token-budget", "--prefill-chunk", "--draft-pages"}) {
    for (const char* bad : {"0", "-1", "many", "2000000000"}) {
      EXPECT_THAT(refusal(6, {option, bad}), ::testing::HasSubstr(option)) << bad;
    }
    EXPECT_EQ(refusal(6, {option, "1"}), "");
  }
  EXPECT_NE(refusal(6, {"--max-batch", "1025"}), "");
}

TEST(OptionsTest, SpecLengthIsANumberOrAuto) {
  for (int stage = 4; stage <= 6; stage++) {
    EXPECT_EQ(parse(stage, {}).spec_length, 5);
    EXPECT_EQ(parse(stage, {"--spec-length", "32"}).spec_length, 32);
    EXPECT_FALSE(parse(stage, {"--spec-length", "32"}).auto_spec_length);
    const RunOptions options = parse(stage, {"--spec-length", "auto", "--cost-profile", "p.json"});
    EXPECT_TRUE(options.auto_spec_length);
    EXPECT_EQ(options.spec_length, 16);
    EXPECT_EQ(options.cost_profile, "p.json");
    for (const char* bad : {"Auto", "auto5", "0", "33"}) {
      EXPECT_EQ(
          refusal(stage, {"--spec-length", bad}),
          fmt::format("--spec-length is '{}'; it takes a number of tokens from 1 to 32, or auto",
                      bad));
    }
  }
  EXPECT_EQ(refusal(3, {"--cost-profile", "p.json"}),
            "this stage has no --cost-profile; 04_greedy_speculation has it");
}

TEST(OptionsTest, HelpIsTrueForTheStage) {
  const auto help = [](int stage) {
    RunOptions options;
    CLI::App app;
    add_run_options(app, stage, options);
    return app.help();
  };
  EXPECT_THAT(help(6), ::testing::HasSubstr("enough for the requests"));
  EXPECT_THAT(help(5), ::testing::HasSubstr("enough for the request)"));
  EXPECT_THAT(help(5), ::testing::Not(::testing::HasSubstr("--requests")));
  EXPECT_THAT(help(6), ::testing::Not(::testing::HasSubstr("--dump")));
}

}  // namespace
}  // namespace specdec
