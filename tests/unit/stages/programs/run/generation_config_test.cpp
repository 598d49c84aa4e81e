#include "stages/programs/run/generation_config.h"

#include "tests/test_support.h"

namespace specdec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

GenerationAdvice advice(std::string_view json) { return parse_generation_advice(json, "g.json"); }

TEST(GenerationAdviceTest, SamplingCountsWhereTheModelSamples) {
  const GenerationAdvice some =
      advice(R"({"do_sample": true, "temperature": 0.6, "top_k": 40, "top_p": 0.9})");
  EXPECT_EQ(some.temperature, 0.6);
  EXPECT_EQ(some.top_k, 40);
  EXPECT_EQ(some.top_p, 0.9);
  EXPECT_EQ(some.repetition_penalty, std::nullopt);
  for (const char* off : {"", R"("do_sample": false, )", R"("do_sample": null, )"}) {
    const GenerationAdvice none = advice(
        std::string("{") + off + R"("temperature": 0.6, "top_k": 40, "top_p": 0.9, "min_p": 0.1})");
    EXPECT_FALSE(none.temperature || none.top_k || none.top_p) << off;
    EXPECT_THAT(none.others, ElementsAre()) << off;
  }
  EXPECT_EQ(advice(R"({"do_sample": true})").temperature, 1.0) << "as transformers has it";
}

TEST(GenerationAdviceTest, APenaltyCountsAlways) {
  EXPECT_EQ(advice(R"({"repetition_penalty": 1.1})").repetition_penalty, 1.1);
}

TEST(GenerationAdviceTest, WhatChangesNothingIsNoAdvice) {
  const GenerationAdvice none = advice(
      R"({"do_sample": true, "temperature": 0, "top_k": 0, "top_p": 1.0, "repetition_penalty": 1,
          "eos_token_id": [1, 2], "bos_token_id": 3, "pad_token_id": 4, "max_length": 4096,
          "transformers_version": "5", "_from_model_config": true, "suppress_tokens": [],
          "begin_suppress_tokens": null, "no_repeat_ngram_size": 0, "typical_p": 1.0,
          "num_beams": 1, "guidance_scale": 1.0, "token_healing": false, "min_length": 0})");
  EXPECT_FALSE(none.temperature || none.top_k || none.top_p || none.repetition_penalty);
  EXPECT_THAT(none.others, ElementsAre());
}

TEST(GenerationAdviceTest, NamesWhatNoOptionDoes) {
  EXPECT_THAT(advice(R"({"do_sample": true, "suppress_tokens": [7, 8], "begin_suppress_tokens": [9],
                 "no_repeat_ngram_size": 3, "bad_words_ids": [[1]], "min_p": 0.05,
                 "typical_p": 0.9, "forced_eos_token_id": 0, "stop_strings": "END",
                 "min_length": 5, "sequence_bias": [[[1], 2.0]]})")
                  .others,
              ElementsAre("min_p 0.05", "typical_p 0.9", "no_repeat_ngram_size 3",
                          "sequence_bias [[[1],2.0]]", "suppress_tokens [7,8]",
                          "begin_suppress_tokens [9]", "bad_words_ids [[1]]",
                          "forced_eos_token_id 0", "min_length 5", "stop_strings \"END\""));
}

TEST(GenerationAdviceTest, RefusesNumbersThatAreNone) {
  EXPECT_ERROR(advice("[]"), "g.json: expected an object");
  EXPECT_ERROR(advice(R"({"do_sample": 1})"), "g.json: do_sample is 1");
  EXPECT_ERROR(advice(R"({"repetition_penalty": "x"})"), "g.json: repetition_penalty is \"x\"");
  EXPECT_ERROR(advice(R"({"repetition_penalty": 0})"), "g.json: --repetition-penalty is 0");
  EXPECT_ERROR(advice(R"({"do_sample": true, "temperature": -1})"), "g.json: --temperature is -1");
  EXPECT_ERROR(advice(R"({"do_sample": true, "top_k": 1.5})"), "g.json: top_k is 1.5");
}

class AdviceOfARunTest : public ::testing::Test {
 protected:
  AdviceOfARunTest() {
    options_.stage = 5;
    options_.target = directory_.path().string();
    write(R"({"do_sample": true, "temperature": 0.6, "top_p": 0.9, "suppress_tokens": [7]})");
  }
  void write(std::string_view json) { directory_.write("generation_config.json", json); }
  std::string not_taken() const { return advice_not_taken(options_).value_or(""); }

  TemporaryDirectory directory_;
  RunOptions options_;
};

TEST_F(AdviceOfARunTest, SaysWhatIsNotTaken) {
  const std::string file = (directory_.path() / "generation_config.json").string();
  EXPECT_EQ(not_taken(), file +
                             " recommends temperature 0.6, top_p 0.9 and suppress_tokens [7]; not "
                             "applied (--generation-config applies temperature and top_p)");
  options_.stage = 2;
  EXPECT_THAT(not_taken(), HasSubstr("(05_rejection_sampling and later: --generation-config "));
  write(R"({"suppress_tokens": [7]})");
  EXPECT_EQ(not_taken(),
            file + " recommends suppress_tokens [7]; not applied, since no option does that");
  write("{}");
  EXPECT_EQ(not_taken(), "");
  std::filesystem::remove(file);
  EXPECT_EQ(not_taken(), "");
}

TEST_F(AdviceOfARunTest, TakesItWhereTheOptionIsNotGiven) {
  options_.given_sampling.top_p = true;
  apply_generation_advice(options_);
  EXPECT_EQ(options_.sampling.temperature, 0.6);
  EXPECT_EQ(options_.sampling.top_p, 1) << "given on the command line";
  EXPECT_THAT(not_taken(), HasSubstr("recommends suppress_tokens [7]; not applied, since"));
}

TEST_F(AdviceOfARunTest, AGivenOptionIsNotCompared) {
  options_.given_sampling = {.temperature = true, .top_k = false, .top_p = true};
  EXPECT_THAT(not_taken(), HasSubstr("recommends suppress_tokens [7]; not applied, since"));
}

TEST_F(AdviceOfARunTest, NeedsTheFile) {
  std::filesystem::remove(directory_.path() / "generation_config.json");
  EXPECT_ERROR(apply_generation_advice(options_), "generation_config.json");
}

}  // namespace
}  // namespace specdec
