// Stop conditions and streaming.
#include "common/generation.h"

#include "stages/programs/run/options.h"
#include "stages/programs/run/request.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

class GenerationTest : public ::testing::Test {
 protected:
  GenerationTest()
      : files_(open_model(options().target)), request_(read_request(files_, options())) {}

  static RunOptions options() {
    RunOptions options;
    options.stage = 1;
    options.prompt = "Hello";
    options.has_prompt = true;
    return options;
  }
  // What is certain is never taken back, and it is the sum of what each token made certain.
  void push(Generation& generation, TokenId id) {
    generation.push(id);
    streamed_ += generation.text_of(static_cast<int>(generation.tokens().size()) - 1);
    EXPECT_EQ(streamed_, generation.certain_text());
  }
  // Pushes the tokens of a text until the generation is finished; returns how many it took.
  std::size_t push(Generation& generation, const std::string& text) {
    std::size_t pushed = 0;
    for (const TokenId id : files_.tokenizer->encode(text, false)) {
      if (generation.finished()) break;
      push(generation, id);
      pushed++;
    }
    return pushed;
  }

  const ModelFiles files_;
  GenerationRequest request_;
  std::string streamed_;
};

TEST_F(GenerationTest, EndsAtTheLengthLimit) {
  request_.max_new_tokens = 3;
  Generation generation(request_, files_.tokenizer_or_null());
  EXPECT_EQ(push(generation, "one two three four five six"), 3u);
  EXPECT_EQ(generation.finish_reason(), FinishReason::kLength);
  EXPECT_EQ(streamed_, generation.text());
  EXPECT_EQ(generation.text(), files_.tokenizer->decode(generation.tokens()));
}

TEST_F(GenerationTest, EndsAtAnEosWhichIsATokenButNoText) {
  ASSERT_GE(request_.eos_ids.size(), 2u);
  for (const TokenId eos : request_.eos_ids) {
    streamed_.clear();
    Generation generation(request_, files_.tokenizer_or_null());
    push(generation, "The end");
    generation.push(eos);
    EXPECT_TRUE(generation.finished());
    EXPECT_EQ(generation.finish_reason(), FinishReason::kStop);
    EXPECT_EQ(generation.text(), "The end");
    EXPECT_EQ(generation.tokens().back(), eos);
  }
}

TEST_F(GenerationTest, AnEosAsTheLastAllowedTokenIsAStop) {
  request_.max_new_tokens = 1;
  Generation generation(request_, files_.tokenizer_or_null());
  generation.push(request_.eos_ids[0]);
  EXPECT_EQ(finish_reason_name(generation.finish_reason()), "stop");
}

TEST_F(GenerationTest, StopsBeforeAStopTextThatSpansTokens) {
  request_.stop = {"lazy dog", "never"};
  Generation generation(request_, files_.tokenizer_or_null());
  push(generation, "The quick brown fox jumps over the lazy dog. And on.");
  EXPECT_EQ(generation.finish_reason(), FinishReason::kStop);
  EXPECT_EQ(generation.text(), "The quick brown fox jumps over the ");
  EXPECT_EQ(streamed_, generation.text());
}

TEST_F(GenerationTest, TheEarliestStopTextCounts) {
  request_.stop = {"cd", "bcd", "b"};
  Generation generation(request_, files_.tokenizer_or_null());
  push(generation, "abcd");
  EXPECT_EQ(generation.text(), "a");
}

TEST_F(GenerationTest, AStopTextAtTheLengthLimitIsAStop) {
  const auto ids = files_.tokenizer->encode("one two three", false);
  request_.max_new_tokens = static_cast<int>(ids.size());
  request_.stop = {"three"};
  Generation generation(request_, files_.tokenizer_or_null());
  push(generation, "one two three");
  EXPECT_EQ(generation.finish_reason(), FinishReason::kStop);
  EXPECT_EQ(generation.text(), "one two ");
}

TEST_F(GenerationTest, WhatOnlyLookedLikeAStopTextIsStreamedInTheEnd) {
  request_.stop = {"the lazy cat"};
  request_.max_new_tokens = 1000;
  Generation generation(request_, files_.tokenizer_or_null());
  push(generation, "over the lazy");
  EXPECT_EQ(streamed_, "over ");  // the rest may be the beginning of a stop text
  push(generation, " dog");
  EXPECT_EQ(streamed_, "over the lazy dog");
  push(generation, " and the la");
  push(generation, request_.eos_ids[0]);
  EXPECT_EQ(streamed_, "over the lazy dog and the la");
  EXPECT_EQ(generation.text(), streamed_);
}

TEST_F(GenerationTest, NeverStreamsHalfACharacter) {
  const std::string text = "a🍋b—c";
  request_.max_new_tokens = 1000;
  Generation generation(request_, files_.tokenizer_or_null());
  for (const TokenId id : files_.tokenizer->encode(text, false)) {
    push(generation, id);
    EXPECT_FALSE(find_invalid_utf8(generation.certain_text())) << generation.certain_text();
  }
  EXPECT_EQ(generation.text(), text);
}

// Every way of cutting a stop text out of random text agrees with a plain search afterwards.
TEST_F(GenerationTest, AgreesWithAPlainSearch) {
  std::uint32_t state = 1;
  const auto random = [&](std::uint32_t n) {
    state = state * 1664525 + 1013904223;
    return (state >> 16) % n;
  };
  for (int trial = 0; trial < 300; trial++) {
    std::string text, stop;
    for (int i = 0; i < 40; i++) text += "ab "[random(3)];
    for (std::uint32_t i = 0; i <= random(5); i++) stop += "ab "[random(3)];
    request_.stop = {stop};
    request_.max_new_tokens = 1000;
    streamed_.clear();
    Generation generation(request_, files_.tokenizer_or_null());
    push(generation, text);
    if (!generation.finished()) push(generation, request_.eos_ids[0]);
    EXPECT_EQ(generation.text(), text.substr(0, text.find(stop))) << text << '|' << stop;
    EXPECT_EQ(streamed_, generation.text());
  }
}

}  // namespace
}  // namespace specdec
