// The command lines of the stages, and what tells them apart.
#include "stages/programs/run/options.h"

#include <set>

#include "stages/programs/run/stage_main.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunOptions parse(int stage, std::vector<std::string> arguments) {
  RunOptions options;
  parse(stage_command_line(stage, "", options), std::move(arguments));
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

TEST(OptionsTest, OnlyAStageThatGivesThemOneTreeTakesSeveralDrafts) {
  const RunOptions several = parse(8, {"--draft", "a", "--draft=b", "--draft", "c"});
  EXPECT_EQ(several.draft, "a");
  EXPECT_EQ(several.other_drafts, (std::vector<std::string>{"b", "c"}));
  EXPECT_TRUE(parse(8, {"--draft", "a"}).other_drafts.empty());
  for (const int stage : {4, 7, 9, 10}) {
    EXPECT_EQ(parse(stage, {"--draft", "a"}).draft, "a");
    EXPECT_EQ(refusal(stage, {"--draft", "a", "--draft", "b"}),
              "--draft is given 2 times, and this stage takes one; 08_token_trees takes several");
  }
  EXPECT_EQ(refusal(8, {"--draft", "a", "--draft", ""}), "--draft is empty; it takes DIR");
}

TEST(StagesTest, NamesBeginWithTheirNumbers) {
  EXPECT_EQ(stage_number("00_toy_speculation"), 0);
  EXPECT_EQ(stage_number("10_some_stage"), 10);
  int last = -1;
  for (const std::string_view name : kStages) {
    EXPECT_GT(stage_number(name), last) << name;
    last = stage_number(name);
    EXPECT_TRUE(has_stage(last));
    EXPECT_EQ(stage_name(last), name);
  }
  EXPECT_FALSE(has_stage(last + 1));
  EXPECT_DEATH(stage_name(last + 1), "a stage of the list");
}

TEST(OptionsTest, EveryOptionIsDeclaredOnce) {
  RunOptions options;
  std::set<std::string_view> names;
  for (const Option& option : all_options(6, options)) {
    EXPECT_TRUE(names.insert(option.name()).second) << option.name();
    EXPECT_TRUE(option.name().starts_with("--")) << option.name();
    EXPECT_NE(option.help, "") << option.name();
    EXPECT_TRUE(has_stage(option.traits.stages.first)) << option.name();
  }
}

TEST(OptionsTest, AStageHasAnOptionOrNamesAStageThatHasIt) {
  int refused = 0;
  for (const std::string_view name : kStages) {
    const int stage = stage_number(name);
    RunOptions options;
    for (const Option& option : all_options(stage, options)) {
      const std::string why_not = why_no_option(option, stage, option.name());
      EXPECT_EQ(why_not.empty(), option.traits.stages.has(stage))
          << option.name() << " of " << name;
      if (why_not.empty() || stage == 0) continue;  // stage 0 has options of its own
      EXPECT_EQ(refusal(stage, {std::string(option.name()), "1"}), why_not);
      const std::size_t at = why_not.find("; ") + 2;
      const int other = stage_number(std::string_view(why_not).substr(at));
      EXPECT_TRUE(option.traits.stages.has(other)) << why_not;
      refused++;
    }
  }
  EXPECT_GT(refused, 50);
}

TEST(OptionsTest, AValueOfALaterStageNamesTheStage) {
  EXPECT_EQ(parse(1, {"--device", "cpu"}).device, DeviceChoice::kCpu);
  for (const std::string device : {"cuda", "emulated"}) {
    EXPECT_EQ(refusal(1, {"--device", device}),
              fmt::format("this stage has no --device {}; 02_contiguous_kv_cache has it", device));
    EXPECT_EQ(refusal(2, {"--device", device}), "");
  }
  EXPECT_THAT(refusal(1, {"--device", "abacus"}), HasSubstr("abacus not in {auto,cpu}"));
  EXPECT_THAT(refusal(2, {"--device", "abacus"}), HasSubstr("{auto,cpu,cuda,emulated}"));
}

TEST(OptionsTest, AnAutoOfALaterStageNamesTheStage) {
  int number = 5;
  bool is_auto = false;
  const Option option = {"--length N", "",
                         IntegerOrAuto{&number, {1, 9}, &is_auto, 7, stages_from(4)}};
  const auto refusal_in = [&](int stage, const std::string& text) {
    return error_message([&] { set_from_text(option, stage, text); });
  };
  EXPECT_EQ(refusal_in(3, "auto"), "this stage has no --length auto; 04_greedy_speculation has it");
  EXPECT_EQ(refusal_in(3, "10"), R"(--length is "10"; it takes a whole number from 1 to 9)");
  EXPECT_EQ(number, 5);
  EXPECT_EQ(refusal_in(4, "10"),
            R"(--length is "10"; it takes a whole number from 1 to 9, or auto)");
  EXPECT_EQ(refusal_in(4, "auto"), "");
  EXPECT_EQ(std::pair(number, is_auto), std::pair(7, true));
  EXPECT_EQ(refusal_in(4, "2"), "");
  EXPECT_EQ(std::pair(number, is_auto), std::pair(2, false));
}

TEST(OptionsTest, AnEmptyValueIsEmpty) {
  for (const std::string_view name : kStages) {
    const int stage = stage_number(name);
    if (stage == 0) continue;
    RunOptions options;
    for (const Option& option : options_of_stage(stage, options)) {
      const std::string empty = std::string(option.name()) + "=";
      const std::string why = refusal(stage, {empty, "--explain"});
      if (option.value_name().empty()) {
        EXPECT_EQ(why, fmt::format("{} takes no value", option.name()));
      } else if (why.empty()) {  // texts that are given, and checked when they are used
        EXPECT_TRUE(parse(stage, {empty, "--explain"}).explain) << name << " " << empty;
      } else {
        EXPECT_THAT(why, HasSubstr(option.name())) << name;
        EXPECT_THAT(why, Not(HasSubstr("explain"))) << name;
      }
    }
  }
  EXPECT_EQ(refusal(4, {"--report=", "--quiet"}), "--report is empty; it takes FILE");
  EXPECT_EQ(refusal(5, {"--top-p=", "--quiet"}),
            R"(--top-p is ""; it takes a number above 0 and at most 1 (1: no limit))");
  const RunOptions options = parse(4, {"--prompt=", "--quiet", "--stop=", "--ignore-eos"});
  EXPECT_TRUE(options.has_prompt && options.quiet && options.ignore_eos);
  EXPECT_EQ(options.prompt, "");
  EXPECT_EQ(options.stop, std::vector<std::string>{""});
  EXPECT_EQ(parse(4, {"--prompt", "a="}).prompt, "a=");
}

TEST(OptionsTest, NumbersHaveTheirRangesWhateverTheTemperature) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> bad = {
      {"--temperature", {"-1", "nan", "inf", "1e400", "1e-400", "", "warm", "1 ", "-1e-9"}},
      {"--draft-temperature", {"-1", "nan", "inf", "x"}},
      {"--top-p", {"nan", "-0.5", "0", "2", "inf", "1.001"}},
      {"--top-k", {"-1", "1.5", "nan"}},
      {"--repetition-penalty", {"0", "-1", "nan", "inf", "1e-308", "1e308"}},
      {"--lenience", {"0", "1.5", "nan"}},
      {"--confidence", {"-0.1", "1.1", "nan"}},
      {"--entropy-smoothing", {"-0.1", "1", "nan"}},
  };
  int refused = 0;
  for (const std::string_view name : kStages) {
    RunOptions options;
    for (const auto& [option, values] : bad) {
      if (find_option(options_of_stage(stage_number(name), options), option) == nullptr) continue;
      for (const std::string& value : values) {
        EXPECT_THAT(refusal(stage_number(name), {option, value, "--quiet"}),
                    AllOf(HasSubstr(option + " is "), HasSubstr("; it takes a ")))
            << name << " " << value;
        refused++;
      }
    }
  }
  EXPECT_GT(refused, 100);
  const RunOptions good = parse(7, {"--top-p", "1", "--repetition-penalty=0.5", "--confidence=1",
                                    "--entropy-smoothing=0", "--draft-temperature=0"});
  EXPECT_EQ(good.sampling.repetition_penalty, 0.5);
  EXPECT_EQ(good.draft_temperature, 0);
}

TEST(OptionsTest, ChoicesAreThoseOfTheirNames) {
  EXPECT_EQ(parse(6, {}).device, DeviceChoice::kAuto);
  EXPECT_EQ(parse(6, {"--device", "emulated"}).device, DeviceChoice::kEmulated);
  EXPECT_EQ(parse(6, {"--gemm", "cublas"}).gemm, Gemm::kCublas);
  EXPECT_EQ(parse(6, {"--cache", "contiguous"}).cache, CacheKind::kContiguous);
  EXPECT_EQ(parse(6, {"--draft-kind", "bigram"}).draft_kind, DraftKind::kBigram);
  EXPECT_EQ(parse(6, {"--target-weights", "int8"}).target_weights, WeightFormat::kInt8);
  EXPECT_EQ(parse(6, {"--draft-weights", "q4"}).draft_weights, WeightFormat::kQ4);
  EXPECT_EQ(parse(6, {"--output", "json"}).output, OutputFormat::kJson);
  EXPECT_EQ(name_of(DraftKind::kLookup), "lookup");
  EXPECT_EQ(find_choice<DraftKind>("lookup"), DraftKind::kLookup);
  EXPECT_EQ(find_choice<DraftKind>("look"), std::nullopt);
}

TEST(OptionsTest, OptionsOfStage6NameItInOtherStages) {
  for (const char* option : {"--requests", "--workload", "--serve", "--max-batch", "--token-budget",
                             "--prefill-chunk", "--draft-pages", "--no-prefix-cache"}) {
    for (int stage = 1; stage <= 5; stage++) {
      EXPECT_EQ(refusal(stage, {option, "7"}),
                fmt::format("this stage has no {}; 06_batched_verification has it", option));
    }
  }
}

TEST(OptionsTest, OptionsThatEndWithStage5NameItLater) {
  for (const char* option : {"--dump", "--dump-logits"}) {
    for (const int stage : {6, 7}) {
      EXPECT_EQ(refusal(stage, {option, "file"}),
                fmt::format("this stage has no {}; 05_rejection_sampling has it", option));
    }
    for (int stage = 1; stage <= 5; stage++) EXPECT_EQ(refusal(stage, {option, "file"}), "");
  }
}

TEST(OptionsTest, RequestsWorkloadsAndPromptsExcludeEachOther) {
  const std::vector<std::string> sources = {"--requests",   "--workload", "--serve",    "--prompt",
                                            "--prompt-ids", "--chat",     "--chat-file"};
  for (const std::string& one : sources) {
    EXPECT_EQ(refusal(6, {one, "1"}), "");
    for (const std::string& other : sources) {
      if (one == other) continue;
      EXPECT_THAT(refusal(6, {one, "1", other, "1"}), HasSubstr("excludes")) << one;
    }
  }
}

TEST(OptionsTest, ASystemMessageGoesWithAChatOfOneTurn) {
  EXPECT_EQ(parse(1, {"--chat-file", "f"}).chat_file, "f");
  EXPECT_TRUE(parse(1, {"--chat-file", "f"}).is_chat());
  EXPECT_TRUE(parse(1, {"--chat", ""}).is_chat());
  EXPECT_FALSE(parse(1, {"--prompt", "a"}).is_chat());
  EXPECT_THAT(refusal(1, {"--chat-file", "f", "--system", "s"}), HasSubstr("--chat"));
}

TEST(OptionsTest, NumbersOfTheSamplingAreNotedWhereTheyAreGiven) {
  const GivenSampling none = parse(5, {}).given_sampling;
  EXPECT_FALSE(none.temperature || none.top_k || none.top_p || none.repetition_penalty);
  const GivenSampling two = parse(5, {"--temperature", "0", "--top-p=1"}).given_sampling;
  EXPECT_TRUE(two.temperature && two.top_p) << "also where they are the defaults";
  EXPECT_FALSE(two.top_k || two.repetition_penalty);
  const GivenSampling others =
      parse(8, {"--top-k", "3", "--repetition-penalty", "1.1"}).given_sampling;
  EXPECT_TRUE(others.top_k && others.repetition_penalty);
  EXPECT_FALSE(others.temperature || others.top_p);
  EXPECT_EQ(refusal(4, {"--generation-config"}),
            "this stage has no --generation-config; 05_rejection_sampling has it");
}

TEST(OptionsTest, NumbersOfStage6HaveRanges) {
  for (const char* option : {"--max-batch", "--token-budget", "--prefill-chunk", "--draft-pages"}) {
    for (const char* bad : {"0", "-1", "many", "2000000000"}) {
      EXPECT_THAT(refusal(6, {option, bad}), HasSubstr(option)) << bad;
    }
    EXPECT_EQ(refusal(6, {option, "1"}), "");
  }
  EXPECT_NE(refusal(6, {"--max-batch", "1025"}), "");
}

TEST(OptionsTest, SpecLengthIsANumber) {
  for (int stage = 4; stage <= 6; stage++) {
    EXPECT_EQ(parse(stage, {}).spec_length, 5);
    EXPECT_EQ(parse(stage, {"--spec-length", "32"}).spec_length, 32);
    EXPECT_FALSE(parse(stage, {"--spec-length", "32"}).auto_spec_length);
    for (const char* bad : {"Auto", "auto5", "0", "33"}) {
      EXPECT_EQ(refusal(stage, {"--spec-length", bad}),
                fmt::format("--spec-length is \"{}\"; it takes a whole number from 1 to 32", bad));
    }
    EXPECT_EQ(refusal(stage, {"--spec-length", "auto"}),
              "this stage has no --spec-length auto; 07_adaptive_drafting has it");
    EXPECT_EQ(refusal(stage, {"--cost-profile", "p.json"}),
              "this stage has no --cost-profile; 07_adaptive_drafting has it");
  }
}

TEST(OptionsTest, SpecLengthOfStage7IsANumberOrAuto) {
  EXPECT_EQ(parse(7, {}).spec_length, 5);
  EXPECT_EQ(parse(7, {"--spec-length", "32"}).spec_length, 32);
  EXPECT_FALSE(parse(7, {"--spec-length", "32"}).auto_spec_length);
  const RunOptions options = parse(7, {"--spec-length", "auto", "--cost-profile", "p.json"});
  EXPECT_TRUE(options.auto_spec_length);
  EXPECT_EQ(options.spec_length, 16);
  EXPECT_EQ(options.cost_profile, "p.json");
  for (const char* bad : {"Auto", "auto5", "0", "33"}) {
    EXPECT_EQ(
        refusal(7, {"--spec-length", bad}),
        fmt::format("--spec-length is \"{}\"; it takes a whole number from 1 to 32, or auto", bad));
  }
}

TEST(OptionsTest, AnOptionIsNoValueOfTheOneBefore) {
  EXPECT_EQ(refusal(4, {"--trace", "--quiet"}),
            "--trace takes FILE, and --quiet follows it; a value that begins with -- is written "
            "--trace=--quiet");
  EXPECT_THAT(refusal(4, {"--stop", "a", "--stop", "--", "--quiet"}), HasSubstr("--stop=--"));
  EXPECT_THAT(refusal(4, {"--max-new-tokens", "--prompt"}), HasSubstr("--max-new-tokens takes N"));
  const RunOptions options =
      parse(4, {"--quiet", "--ignore-eos", "--trace=--quiet", "--stop=--", "--prompt", "-one"});
  EXPECT_EQ(options.trace, "--quiet");
  EXPECT_EQ(options.stop, std::vector<std::string>{"--"});
  EXPECT_EQ(options.prompt, "-one");
}

TEST(OptionsTest, HelpIsTrueForTheStage) {
  const auto help_of = [](int stage) {
    RunOptions options;
    return help(stage_command_line(stage, "Does something.", options));
  };
  EXPECT_THAT(help_of(6), HasSubstr("Does something.\nUsage: 06_batched_verification [OPTIONS]"));
  EXPECT_THAT(help_of(6), HasSubstr("enough for the requests"));
  EXPECT_THAT(help_of(6), HasSubstr("one request per line; -: stdin (default: a workload)"));
  EXPECT_THAT(help_of(6), HasSubstr("text to continue, as the only request\n"));
  for (const int stage : {5, 7, 8}) {
    EXPECT_THAT(help_of(stage), HasSubstr("text to continue (default: a built-in one)")) << stage;
    EXPECT_THAT(help_of(stage), Not(HasSubstr("a workload"))) << stage;
  }
  EXPECT_THAT(help_of(5), HasSubstr("enough for the request)"));
  EXPECT_THAT(help_of(5), Not(HasSubstr("--requests")));
  EXPECT_THAT(help_of(6), Not(HasSubstr("--dump")));
  EXPECT_THAT(help_of(6), Not(HasSubstr("or auto")));
  EXPECT_THAT(help_of(7), HasSubstr("1 to 32, or auto: as many as pay"));
  EXPECT_THAT(help_of(3), HasSubstr("tokens per page, 1 to 1048576\n"));
  EXPECT_THAT(help_of(3), HasSubstr("pages in the pool (default: enough for the request)\n"));
  EXPECT_THAT(help_of(1), HasSubstr("--device NAME:{auto,cpu}=auto\n"));
  EXPECT_THAT(help_of(5), HasSubstr("--top-p X=1 "));
}

}  // namespace
}  // namespace specdec
