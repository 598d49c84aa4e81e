// Tokens that stand in other files than tokenizer.json. That they are read as transformers reads
// them is tested in tests/golden.
#include <functional>
#include <string>

#include "common/base/json_value.h"
#include "tests/test_support.h"
#include "tests/unit/common/tokenizer/tokenizer_builder.h"

namespace specdec {
namespace {

using Ids = std::vector<TokenId>;

// A checkpoint's folder. Its tokenizer.json has the ids 0 to 255, "he" 256, <|begin|> 257 and
// <|end|> 258.
class FurtherTokensTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const Json& content) {
    directory_.write(name, content.dump());
  }
  void write_config(const std::string& key, const Json& value) {
    write("tokenizer_config.json", {{key, value}});
  }
  Tokenizer load() const { return Tokenizer::load(path_); }
  std::string message() const {
    return error_message([&] { load(); });
  }

  const TemporaryDirectory directory_;
  const std::filesystem::path path_ =
      directory_.write("tokenizer.json", small_tokenizer({{"h", "e"}}).dump());
};

Json flags(const std::string& content, bool special = true) {
  Json token = added_token(0, content, special);
  token.erase("id");
  return token;
}

TEST_F(FurtherTokensTest, AreTokens) {
  EXPECT_EQ(load().encode("a<|im_x|>", false).size(), 9u) << "spelled";
  write_config("added_tokens_decoder",
               {{"260", flags("<|im_y|>")}, {"259", flags("<|im_x|>", false)}});
  const Tokenizer tokenizer = load();
  EXPECT_EQ(tokenizer.encode("a<|im_x|><|im_y|>", false), (Ids{'a', 259, 260}));
  EXPECT_EQ(tokenizer.decode(Ids{'a', 259, 260}), "a<|im_x|>");
  EXPECT_EQ(tokenizer.vocab_size(), 261);
  write_config("extra_special_tokens", {"<|im_x|>", "<|begin|>", "he"});
  EXPECT_EQ(load().encode("a<|im_x|>the", false), (Ids{'a', 259, 't', 256}));
  EXPECT_TRUE(load().is_special(256)) << "a token of the model can be special";
  EXPECT_EQ(Tokenizer::parse(small_tokenizer().dump(), "alone").vocab_size(), 258);
}

TEST_F(FurtherTokensTest, TheMapCountsWhereTheConfigListsNoTokens) {
  write("special_tokens_map.json", {{"pad_token", "<pad>"}});
  EXPECT_EQ(load().encode("<pad>", false), Ids{259});
  write_config("added_tokens_decoder", Json::object());
  EXPECT_EQ(load().encode("<pad>", false).size(), 5u);
}

TEST_F(FurtherTokensTest, WhatIsNotSupportedIsRefusedByName) {
  write_config("split_special_tokens", true);
  EXPECT_THAT(message(), ::testing::HasSubstr("tokenizer_config.json: split_special_tokens"));
  write_config("added_tokens_decoder", {{"300", flags("<x>")}});
  EXPECT_THAT(message(), ::testing::HasSubstr("tokenizer.json: tokenizer_config.json gives the "
                                              "token \"<x>\" the id 300, but the next id here is "
                                              "259"));
  Json normalized = flags("<|end|>");
  normalized["normalized"] = true;
  write_config("added_tokens_decoder", {{"258", normalized}});
  EXPECT_THAT(message(), ::testing::HasSubstr(
                             "\"normalized\" is true for the token \"<|end|>\"; here it is false"));
  write_config("image_token", "<image>");
  EXPECT_THAT(message(), ::testing::HasSubstr("the token \"<image>\" as \"image_token\", but"));
  write_config("extra_special_tokens", {{"image_token", "<image>"}});
  EXPECT_THAT(message(), ::testing::HasSubstr("the token \"<image>\" as \"image_token\", but"));
  Json stripping = flags("<x>");
  stripping["__type"] = "AddedToken";
  stripping["lstrip"] = true;
  write_config("extra_special_tokens", Json::array({"<x>", stripping}));
  EXPECT_THAT(message(), ::testing::HasSubstr("describes the token \"<x>\" in several ways"));
  write_config("extra_special_tokens", Json::array({"<x>", "<x>"}));
  EXPECT_EQ(message(), "");
  write_config("image_token", "<|end|>");
  EXPECT_EQ(message(), "");
  write("added_tokens.json", {{"<|end|>", 258}});
  EXPECT_EQ(message(), "");
  write("added_tokens.json", {{"<|end|>", 258}, {"<x>", 259}});
  EXPECT_THAT(message(), ::testing::HasSubstr("added_tokens.json gives the token \"<x>\" the id "
                                              "259, but here is no such added token"));
}

TEST_F(FurtherTokensTest, BadFilesHaveTheirMessages) {
  const auto expect = [&](const std::string& key, const Json& value, const std::string& words) {
    write_config(key, value);
    EXPECT_THAT(message(), ::testing::AllOf(::testing::HasSubstr("tokenizer_config.json: "),
                                            ::testing::HasSubstr(words)));
  };
  directory_.write("tokenizer_config.json", "{");
  EXPECT_THAT(message(), ::testing::HasSubstr("tokenizer_config.json: not valid JSON"));
  directory_.write("tokenizer_config.json", "[]");
  EXPECT_THAT(message(), ::testing::HasSubstr("expected an object, found []"));
  expect("pad_token", 3, "pad_token is 3; it must be a string or an added token");
  expect("pad_token", flags("<x>"), "it must be a string or an added token");
  expect("extra_special_tokens", "<x>", "extra_special_tokens is \"<x>\"; it must be a list");
  expect("extra_special_tokens", Json::array({3}), "extra_special_tokens is 3; it must be a str");
  expect("additional_special_tokens", 3, "additional_special_tokens is 3; it must be a list");
  expect("added_tokens_decoder", 3, "added_tokens_decoder is 3; it must be an object");
  expect("added_tokens_decoder", {{"259", "<x>"}}, "added_tokens_decoder[259]: expected an object");
  expect("added_tokens_decoder", {{"x", flags("<x>")}}, "\"x\" is not an integer from 0");
  expect("added_tokens_decoder", {{"-1", flags("<x>")}}, "\"-1\" is not an integer from 0");
  expect("added_tokens_decoder", {{"9 ", flags("<x>")}}, "\"9 \" is not an integer from 0");
  expect("added_tokens_decoder", {{"", flags("<x>")}}, "\"\" is not an integer from 0");
  expect("added_tokens_decoder", {{"259", flags("")}}, "the content is empty");
}

TEST_F(FurtherTokensTest, NoIdIsLeft) {
  Json file = small_tokenizer();
  file["added_tokens"][1]["id"] = 2147483647;
  write("tokenizer.json", file);
  write_config("pad_token", "<pad>");
  EXPECT_THAT(message(), ::testing::HasSubstr("no id is left for the token \"<pad>\""));
}

}  // namespace
}  // namespace specdec
